#include "runtime/session.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/engine.h"
#include "runtime/speculation.h"
#include "runtime/writer.h"

namespace knapsack {
namespace {

class LocalSession final : public Session {
 public:
  LocalSession(std::unique_ptr<Engine> engine, std::unique_ptr<Speculation> speculation)
      : engine_(std::move(engine)), speculation_(std::move(speculation)) {
    ids_.reserve(static_cast<std::size_t>(engine_->rows()));
  }

  Result<std::shared_ptr<const Tokenizer>> tokenizer() override { return engine_->tokenizer(); }
  Result<Completion> generate(Ids prompt, const GenerateOptions& options, const OnText& on_text,
                              std::stop_token stop) override;
  Result<void> score(Ids ids, std::int64_t from, const OnLogits& on_logits, std::stop_token stop) override;

  void reset() override { engine_->held(0).clear(); }
  [[nodiscard]] std::int64_t ctx() const override { return engine_->ctx(); }
  [[nodiscard]] const Bundle& bundle() const override { return engine_->bundle(); }
  [[nodiscard]] std::size_t kv_bytes() const override {
    return engine_->kv_bytes() + (speculation_ == nullptr ? 0 : speculation_->kv_bytes());
  }
  [[nodiscard]] std::size_t arena_bytes() const override {
    return engine_->arena_bytes() + (speculation_ == nullptr ? 0 : speculation_->arena_bytes());
  }

 private:
  std::span<const float> prefill(Writer& writer, const std::stop_token& stop);
  Result<void> decode(Writer& writer, std::span<const float> logits, const std::stop_token& stop);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Speculation> speculation_;  // null: off
  std::vector<std::int32_t> ids_;             // of a decode step: the last token, then guesses
};

// The logits behind the prompt; none when cancelled.
std::span<const float> LocalSession::prefill(Writer& writer, const std::stop_token& stop) {
  const Stopwatch since;
  const Ids prompt = writer.history();
  Ids rest = prompt.subspan(static_cast<std::size_t>(engine_->keep_prefix(0, prompt)));
  std::span<const float> logits;
  while (!rest.empty() && !stop.stop_requested()) {
    const Ids part = rest.first(std::min(rest.size(), static_cast<std::size_t>(engine_->chunk())));
    rest = rest.subspan(part.size());
    logits = engine_->extend(0, part, rest.empty() ? 1 : 0);
    writer.result().prefilled_tokens += static_cast<std::int64_t>(part.size());
  }
  writer.result().prefill_ms = since.ms();
  return logits;
}

Result<void> LocalSession::decode(Writer& writer, std::span<const float> logits, const std::stop_token& stop) {
  const auto vocab = static_cast<std::size_t>(bundle().vocab);
  auto& held = engine_->held(0);
  Completion& result = writer.result();
  ids_.clear();         // of the step that `logits` come from; its first one is no guess
  std::size_t row = 0;  // of `logits`, that the next token is picked from
  const auto judge = [&](bool refuted) {
    if (ids_.size() < 2) return;
    const auto right = static_cast<std::int64_t>(row);
    result.accepted += right;
    speculation_->judged(refuted ? static_cast<std::int64_t>(ids_.size()) - 1 : right, right);
  };
  while (true) {
    writer.pick(logits.subspan(row * vocab, vocab));
    TRY_VOID(writer.take());
    if (writer.ended() || stop.stop_requested()) {
      // The cache is left as if there had been no guesses.
      held.resize(held.size() - (ids_.empty() ? 0 : ids_.size() - 1 - row));
      judge(false);
      return {};
    }
    const std::int32_t id = writer.history().back();
    ++result.decode_tokens;
    if (row + 1 < ids_.size() && ids_[row + 1] == id) {
      ++row;
      continue;
    }
    if (!ids_.empty()) held.resize(held.size() - (ids_.size() - 1 - row));
    judge(row + 1 < ids_.size());
    ids_.assign(1, id);
    row = 0;
    if (speculation_ != nullptr) {
      // The last token that is wanted is never run, so the guesses fit into the context, too.
      const auto guesses = speculation_->propose(writer.history(), writer.left() - 1);
      ids_.insert(ids_.end(), guesses.begin(), guesses.end());
    }
    const auto guesses = static_cast<std::int64_t>(ids_.size()) - 1;
    const Stopwatch since;
    logits = engine_->extend(0, ids_, guesses + 1);
    if (speculation_ != nullptr) speculation_->stepped(guesses, since.ms());
    result.drafted += guesses;
    ++result.decode_steps;
  }
}

Result<Completion> LocalSession::generate(Ids prompt, const GenerateOptions& options, const OnText& on_text,
                                          std::stop_token stop) {
  TRY(Writer writer, Writer::create(*engine_, prompt, options, on_text));
  if (!writer.ended()) {
    if (speculation_ != nullptr) speculation_->begin();
    const auto logits = prefill(writer, stop);
    if (!logits.empty()) TRY_VOID(decode(writer, logits, stop));
  }
  return writer.finish();
}

Result<void> LocalSession::score(Ids ids, std::int64_t from, const OnLogits& on_logits, std::stop_token stop) {
  TRY_VOID(engine_->check_ids(ids));
  if (static_cast<std::int64_t>(ids.size()) > ctx())
    return usage_error("{} tokens are to be scored, the context holds {}; ask for a larger context (--ctx)", ids.size(),
                       ctx());
  CHECK(from >= 0);
  const auto& held = engine_->held(0);
  reset();
  const Program& program = *bundle().prefill;
  while (held.size() < ids.size()) {
    if (stop.stop_requested()) return Error{Code::interrupted, "interrupted"};
    const std::size_t first = held.size();
    const auto unwanted = static_cast<std::size_t>(std::max<std::int64_t>(0, from - static_cast<std::int64_t>(first)));
    // Rows before `from` are run in whole chunks; the others in as many as can be selected.
    const auto rows = unwanted > 0 ? std::min<std::size_t>(unwanted, program.max_tokens)
                                   : static_cast<std::size_t>(std::min(program.max_tokens, program.max_selected));
    const Ids part = ids.subspan(first, std::min(rows, ids.size() - first));
    const std::size_t wanted = unwanted > 0 ? 0 : part.size();
    const auto logits = engine_->extend(0, part, static_cast<std::int64_t>(wanted));
    if (wanted > 0) on_logits(static_cast<std::int64_t>(first), static_cast<std::int64_t>(wanted), logits);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Bundle> bundle, const SessionOptions& options) {
  if (options.guesses < -1)
    return usage_error("guesses: expected -1 (as many as pay) or more, found {}", options.guesses);
  EngineOptions wanted{.ctx = options.ctx,
                       .kv = options.kv,
                       .threads = options.threads,
                       .exact = options.exact,
                       .isa = options.isa,
                       .load_tokenizer = options.load_tokenizer};
  TRY(auto engine, Engine::create(std::move(bundle), wanted));
  std::unique_ptr<Engine> draft;
  if (options.draft != nullptr) {
    // As many tokens as the model's context holds, where the draft was trained for so many.
    wanted.ctx = options.draft->trained_ctx > 0 ? std::min(engine->ctx(), options.draft->trained_ctx) : engine->ctx();
    wanted.pool = engine->pool();
    wanted.load_tokenizer = false;
    TRY(draft, Engine::create(options.draft, wanted));
    TRY_VOID(check_same_vocabulary(*engine, *draft));
  }
  std::unique_ptr<Speculation> speculation;
  if (options.lookup || draft != nullptr)
    speculation = std::make_unique<Speculation>(*engine, options.lookup, std::move(draft), options.guesses);
  return std::unique_ptr<Session>(std::make_unique<LocalSession>(std::move(engine), std::move(speculation)));
}

}  // namespace knapsack
