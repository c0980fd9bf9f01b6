#include "runtime/batch.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace knapsack {

Batch::Batch(std::unique_ptr<Engine> engine, std::int64_t prefill_tokens)
    : engine_(std::move(engine)),
      prefill_tokens_(prefill_tokens > 0 ? std::min(prefill_tokens, engine_->chunk()) : engine_->chunk()),
      texts_(static_cast<std::size_t>(engine_->slots())) {
  slots_.reserve(texts_.size());
  ids_.reserve(texts_.size());
}

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Bundle> bundle, const BatchOptions& options) {
  const std::int64_t rows = bundle->decode->max_selected;
  if (options.slots < 1 || options.slots > rows)
    return usage_error("sequences decoded together must be 1 to {}, the rows of a decode step; found {}", rows,
                       options.slots);
  if (options.prefill_tokens < 0)
    return usage_error("prompt tokens a step must be 0 (a chunk) or more, found {}", options.prefill_tokens);
  TRY(auto engine, Engine::create(std::move(bundle), {.slots = options.slots,
                                                      .ctx = options.ctx,
                                                      .kv = options.kv,
                                                      .threads = options.threads,
                                                      .exact = options.exact,
                                                      .isa = options.isa,
                                                      .load_tokenizer = options.load_tokenizer}));
  return std::unique_ptr<Batch>(new Batch(std::move(engine), options.prefill_tokens));
}

const Batch::Text& Batch::text(std::int32_t slot) const {
  CHECK(slot >= 0 && slot < static_cast<std::int32_t>(texts_.size()));
  const auto& text = texts_[static_cast<std::size_t>(slot)];
  CHECK(text != nullptr);
  return *text;
}

std::int64_t Batch::taken() const {
  return std::count_if(texts_.begin(), texts_.end(), [](const auto& text) { return text != nullptr; });
}

Result<std::int32_t> Batch::join(Ids prompt, const GenerateOptions& options, const OnText& on_text) {
  TRY(Writer writer, Writer::create(*engine_, prompt, options, on_text));
  prompt = writer.history();
  // Where nothing of the prompt is held, the slot whose loss is the least.
  std::int32_t best = -1;
  std::int64_t best_same = -1;
  for (std::size_t slot = 0; slot < texts_.size(); ++slot) {
    if (texts_[slot] != nullptr) continue;
    const auto& held = engine_->held(static_cast<std::int64_t>(slot));
    const auto most = static_cast<std::ptrdiff_t>(std::min(held.size(), prompt.size()));
    const auto same = std::mismatch(held.begin(), held.begin() + most, prompt.begin()).first - held.begin();
    const bool smaller = best >= 0 && held.size() < engine_->held(best).size();
    if (same > best_same || (same == best_same && smaller)) {
      best = static_cast<std::int32_t>(slot);
      best_same = same;
    }
  }
  if (best < 0)
    return out_of_resource("all {} sequences are taken; one has to leave before another joins", texts_.size());
  auto text = std::make_unique<Text>(Text{.writer = std::move(writer), .order = joined_++});
  if (!text->writer.ended()) text->known = engine_->keep_prefix(best, text->writer.history());
  texts_[static_cast<std::size_t>(best)] = std::move(text);
  return best;
}

bool Batch::ended(std::int32_t slot) const { return text(slot).failure || text(slot).writer.ended(); }

Result<Completion> Batch::leave(std::int32_t slot) {
  CHECK(text(slot).order >= 0);
  const auto text = std::move(texts_[static_cast<std::size_t>(slot)]);
  if (text->failure) return std::move(*text->failure);
  return text->writer.finish();
}

void Batch::take(Text& text) {
  if (auto taken = text.writer.take(); !taken) text.failure = std::move(taken).error();
  text.decoding = !text.failure && !text.writer.ended();
}

void Batch::prefill(Text& text, std::int32_t slot) {
  const Stopwatch since;
  const Ids rest = text.writer.history().subspan(static_cast<std::size_t>(text.known));
  const Ids part = rest.first(std::min(rest.size(), static_cast<std::size_t>(prefill_tokens_)));
  const bool last = part.size() == rest.size();
  const auto logits = engine_->extend(slot, part, last ? 1 : 0);
  text.known += static_cast<std::int64_t>(part.size());
  text.writer.result().prefilled_tokens += static_cast<std::int64_t>(part.size());
  text.writer.result().prefill_ms += since.ms();
  if (!last) return;
  text.writer.pick(logits);
  take(text);
}

void Batch::decode() {
  const auto vocab = static_cast<std::size_t>(bundle().vocab);
  const auto logits = engine_->extend_each(slots_, ids_);
  const auto at = [&](std::size_t i) -> Text& { return *texts_[static_cast<std::size_t>(slots_[i])]; };
  engine_->pool()->parallel_for(static_cast<std::int64_t>(ids_.size()), 1,
                                [&](std::int64_t begin, std::int64_t end, int) {
                                  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
                                    at(i).writer.pick(logits.subspan(i * vocab, vocab));
                                });
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    ++at(i).writer.result().decode_tokens;
    ++at(i).writer.result().decode_steps;
    take(at(i));
  }
}

bool Batch::step() {
  std::int32_t waiting = -1;
  for (std::size_t slot = 0; slot < texts_.size(); ++slot) {
    const auto* text = texts_[slot].get();
    if (text == nullptr || text->decoding || text->failure || text->writer.ended()) continue;
    if (waiting < 0 || text->order < texts_[static_cast<std::size_t>(waiting)]->order)
      waiting = static_cast<std::int32_t>(slot);
  }
  if (waiting >= 0) prefill(*texts_[static_cast<std::size_t>(waiting)], waiting);
  slots_.clear();
  ids_.clear();
  for (std::size_t slot = 0; slot < texts_.size(); ++slot) {
    if (texts_[slot] == nullptr || !texts_[slot]->decoding) continue;
    slots_.push_back(static_cast<std::int32_t>(slot));
    ids_.push_back(texts_[slot]->writer.history().back());
  }
  if (!ids_.empty()) decode();
  return waiting >= 0 || !ids_.empty();
}

}  // namespace knapsack
