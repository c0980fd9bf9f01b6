#include "runtime/session.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <limits>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/threads.h"
#include "program/pack.h"
#include "runtime/log_softmax.h"
#include "runtime/stop_strings.h"

namespace knapsack {
namespace {

using TokenizerResult = Result<std::shared_ptr<const Tokenizer>>;
using Ids = std::span<const std::int32_t>;

Result<std::int64_t> choose_ctx(const Bundle& bundle, const SessionOptions& options) {
  if (options.ctx < 0) return usage_error("the context length must be positive, found {}", options.ctx);
  const std::int64_t ctx = options.ctx > 0 ? options.ctx : usual_ctx(bundle);
  if (ctx > std::numeric_limits<std::int32_t>::max())
    return usage_error("a context of {} tokens is more than this program counts; at most {} are possible", ctx,
                       std::numeric_limits<std::int32_t>::max());
  return ctx;
}

// Asks the kernel to read the weights ahead; without it each page would be a fault in the first step.
void prefetch(const Bundle& bundle, const std::stop_token& stop) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const auto& weight : bundle.prefill->weights) {
    const auto bytes = static_cast<std::uintptr_t>(weight->bytes()) / std::max<std::size_t>(1, weight->slabs.size());
    for (const std::byte* slab : weight->slabs) {
      if (stop.stop_requested()) return;
      const auto begin = reinterpret_cast<std::uintptr_t>(slab) / page * page;
      madvise(reinterpret_cast<void*>(begin), reinterpret_cast<std::uintptr_t>(slab) + bytes - begin, MADV_WILLNEED);
    }
  }
}

TokenizerResult load_tokenizer(const Bundle& bundle) {
  if (!bundle.tokenizer_json) return unsupported("{}: the model has no tokenizer; give it token ids", bundle.name);
  TRY(const std::string text, bundle.tokenizer_json());
  return Tokenizer::from_json(text, "tokenizer of " + bundle.name);
}

// tokenizer_config.json's bos_token: a string, or an object with its content.
std::optional<std::string> bos_token(const std::string& config) {
  const auto parsed = parse_json(config, "tokenizer_config.json");
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto* value = parsed->as_object().if_contains("bos_token");
  if (value != nullptr && value->is_object()) value = value->as_object().if_contains("content");
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(value->as_string());
}

class LocalSession final : public Session {
 public:
  LocalSession(std::shared_ptr<const Bundle> bundle, KvCache kv, std::int64_t ctx, int threads)
      : bundle_(std::move(bundle)), kv_(std::move(kv)), ctx_(ctx), pool_(threads) {
    const auto rows = static_cast<std::size_t>(bundle_->prefill->max_tokens);
    positions_.resize(rows);
    slots_.resize(rows);
    selected_.resize(rows);
  }

  Result<void> start(Isa isa, bool with_tokenizer, bool exact) {
    if (with_tokenizer) load();
    prefetch_ = std::jthread([bundle = bundle_](const std::stop_token& stop) { prefetch(*bundle, stop); });
    if (!exact) {
      TRY(packed_, pack_weights(*bundle_->prefill, pool_));
    }
    TRY(prefill_, Executor::create(bundle_->prefill, kv_, pool_, isa, packed_.get()));
    TRY(decode_, Executor::create(bundle_->decode, kv_, pool_, isa, packed_.get()));
    cached_.reserve(static_cast<std::size_t>(ctx_));
    history_.reserve(static_cast<std::size_t>(ctx_));
    return {};
  }

  TokenizerResult tokenizer() override {
    try {
      if (!tokenizer_.valid()) load();
    } catch (const std::system_error& error) {
      return out_of_resource("cannot start a thread for the tokenizer: {}", error.what());
    }
    return tokenizer_.get();
  }

  Result<Completion> generate(Ids prompt, const GenerateOptions& options,
                              const std::function<void(std::string_view)>& on_text, std::stop_token stop) override;
  Result<void> score(Ids ids, std::int64_t from, const OnLogits& on_logits, std::stop_token stop) override;

  void reset() override { cached_.clear(); }
  [[nodiscard]] std::int64_t ctx() const override { return ctx_; }
  [[nodiscard]] const Bundle& bundle() const override { return *bundle_; }
  [[nodiscard]] std::size_t kv_bytes() const override { return kv_.bytes(); }
  [[nodiscard]] std::size_t arena_bytes() const override { return prefill_->bytes() + decode_->bytes(); }

 private:
  void load() {
    tokenizer_ = std::async(std::launch::async, [bundle = bundle_] { return load_tokenizer(*bundle); }).share();
  }
  [[nodiscard]] bool has_tokenizer() const { return static_cast<bool>(bundle_->tokenizer_json); }

  Result<void> check_ids(Ids ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= bundle_->vocab)
        return usage_error("token {} of the prompt has id {}; this model's ids go from 0 to {}", i, ids[i],
                           bundle_->vocab - 1);
    return {};
  }

  Result<std::int32_t> bos() {
    const auto name = bos_token(bundle_->tokenizer_config_json);
    if (has_tokenizer() && name) {
      TRY(const auto tokenizer, this->tokenizer());
      const auto id = tokenizer->id_of(*name);
      if (id) return *id;
    }
    return usage_error("the prompt is empty, and the model has no BOS token to begin with; give it some text");
  }

  // Runs `ids` at the end of what the cache holds. Logits of the last `wanted` of them.
  std::span<const float> step(Executor& executor, Ids ids, std::size_t wanted) {
    const auto past = static_cast<std::int32_t>(cached_.size());
    for (std::size_t i = 0; i < ids.size(); ++i) positions_[i] = past + static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < wanted; ++i) selected_[i] = static_cast<std::int32_t>(ids.size() - wanted + i);
    const auto logits = executor.run({.ids = ids,
                                      .positions = Ids(positions_).first(ids.size()),
                                      .slots = Ids(slots_).first(ids.size()),
                                      .selected = Ids(selected_).first(wanted)});
    cached_.insert(cached_.end(), ids.begin(), ids.end());
    return logits;
  }

  std::shared_ptr<const Bundle> bundle_;
  KvCache kv_;
  std::int64_t ctx_;
  ThreadPool pool_;
  std::unique_ptr<PackedWeights> packed_;  // null: float products
  std::unique_ptr<Executor> prefill_, decode_;
  std::vector<std::int32_t> positions_, slots_, selected_;  // of a step
  std::vector<std::int32_t> cached_;                        // ids whose rows the KV cache holds
  std::vector<std::int32_t> history_;                       // prompt and completion
  std::shared_future<TokenizerResult> tokenizer_;
  std::jthread prefetch_;
};

// The text side of a completion: decoding, stop strings, end tokens. Made when the first token is there, so that
// prefill does not wait for the tokenizer.
struct TextOut {
  std::optional<StreamDecoder> decoder;
  StopStrings stops;
  const std::function<void(std::string_view)>& on_text;
  std::string fresh;  // of one token

  // True: a stop string is complete.
  bool push(std::int32_t id, std::string& text) {
    if (!decoder) return false;
    fresh.clear();
    const bool stopped = stops.push(decoder->push(id), fresh);
    emit(text);
    return stopped;
  }
  void finish(std::string& text) {
    if (!decoder) return;
    fresh.clear();
    if (!stops.push(decoder->finish(), fresh)) stops.finish(fresh);
    emit(text);
  }
  void emit(std::string& text) {
    text += fresh;
    if (!fresh.empty() && on_text) on_text(fresh);
  }
};

Result<Completion> LocalSession::generate(Ids prompt, const GenerateOptions& options,
                                          const std::function<void(std::string_view)>& on_text, std::stop_token stop) {
  const Stopwatch since_call;
  TRY_VOID(check(options.sampler, bundle_->vocab));
  if (options.max_tokens < -1)
    return usage_error("max_tokens: expected -1 (to the context's end) or more, found {}", options.max_tokens);
  if (options.logprobs < 0) return usage_error("logprobs: expected 0 or more, found {}", options.logprobs);
  for (const auto& text : options.stop)
    if (text.empty()) return usage_error("a stop string is empty; it would stop before the first token");
  if (!options.stop.empty() && !has_tokenizer())
    return unsupported("{}: stop strings need a tokenizer, and the model has none", bundle_->name);
  std::int32_t begin_id = 0;
  if (prompt.empty()) {
    TRY(begin_id, bos());
    prompt = {&begin_id, 1};
  }
  TRY_VOID(check_ids(prompt));
  const auto given = static_cast<std::int64_t>(prompt.size());
  if (given > ctx_)
    return usage_error(
        "the prompt has {} tokens, the context holds {}; shorten the prompt or ask for a larger context (--ctx)", given,
        ctx_);

  Completion result;
  result.prompt_tokens = given;
  if (options.max_tokens == 0 || given == ctx_) {
    result.finish = options.max_tokens == 0 ? Finish::length : Finish::context;
    return result;
  }
  const std::int64_t room = ctx_ - given;
  const std::int64_t most = options.max_tokens < 0 ? room : std::min(room, options.max_tokens);
  result.ids.reserve(static_cast<std::size_t>(most));
  // Some 4 bytes a token; a long context is not paid for before it is used.
  result.text.reserve(static_cast<std::size_t>(std::min<std::int64_t>(most, 16384)) * 5);
  Sampler sampler(options.sampler, bundle_->vocab, ctx_);
  history_.assign(prompt.begin(), prompt.end());

  // What the cache holds of the prompt stays; its last token is always run, for its logits.
  std::size_t known = 0;
  while (known < cached_.size() && known + 1 < prompt.size() && cached_[known] == prompt[known]) ++known;
  cached_.resize(known);
  result.finish = Finish::cancelled;
  const auto chunk = static_cast<std::size_t>(bundle_->prefill->max_tokens);
  std::span<const float> logits;
  const Stopwatch since_prefill;
  while (cached_.size() < prompt.size() && !stop.stop_requested()) {
    const Ids part = prompt.subspan(cached_.size(), std::min(chunk, prompt.size() - cached_.size()));
    const bool last = cached_.size() + part.size() == prompt.size();
    // One token alone goes through the program made for one.
    logits = step(part.size() == 1 ? *decode_ : *prefill_, part, last ? 1 : 0);
    result.prefilled_tokens += static_cast<std::int64_t>(part.size());
  }
  result.prefill_ms = since_prefill.ms();
  if (cached_.size() < prompt.size()) return result;

  TextOut text{.decoder = {}, .stops = StopStrings(options.stop), .on_text = on_text, .fresh = {}};
  std::vector<std::int32_t> end_ids;
  if (!options.ignore_eos) end_ids = bundle_->eos_ids;
  const auto is_end = [&](std::int32_t id) { return std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end(); };
  Stopwatch since_first;
  while (true) {
    TRY(const std::int32_t id, sampler.sample(logits, history_));
    if (result.ids.empty()) {
      result.ttft_ms = since_call.ms();
      since_first = Stopwatch();
      if (has_tokenizer()) {
        TRY(auto tokenizer, this->tokenizer());
        for (const auto& name : options.stop) {
          const auto special = tokenizer->id_of(name);
          if (special && tokenizer->is_special(*special)) end_ids.push_back(*special);
        }
        text.decoder.emplace(std::move(tokenizer), true);
      }
    }
    if (is_end(id)) {
      result.finish = Finish::stop;
      break;
    }
    if (options.logprobs > 0) result.logprobs.push_back(token_logprob(logits, id, options.logprobs));
    result.ids.push_back(id);
    history_.push_back(id);
    if (text.push(id, result.text)) {
      result.finish = Finish::stop;
      break;
    }
    const auto made = static_cast<std::int64_t>(result.ids.size());
    if (made == most) {
      result.finish = made == options.max_tokens ? Finish::length : Finish::context;
      break;
    }
    if (stop.stop_requested()) break;
    logits = step(*decode_, {&id, 1}, 1);
    ++result.decode_steps;
  }
  result.decode_ms = since_first.ms();
  text.finish(result.text);
  return result;
}

Result<void> LocalSession::score(Ids ids, std::int64_t from, const OnLogits& on_logits, std::stop_token stop) {
  TRY_VOID(check_ids(ids));
  if (static_cast<std::int64_t>(ids.size()) > ctx_)
    return usage_error("{} tokens are to be scored, the context holds {}; ask for a larger context (--ctx)", ids.size(),
                       ctx_);
  CHECK(from >= 0);
  cached_.clear();
  const Program& program = *bundle_->prefill;
  while (cached_.size() < ids.size()) {
    if (stop.stop_requested()) return Error{Code::interrupted, "interrupted"};
    const std::size_t first = cached_.size();
    const auto unwanted = static_cast<std::size_t>(std::max<std::int64_t>(0, from - static_cast<std::int64_t>(first)));
    // Rows before `from` are run in whole chunks; the others in as many as can be selected.
    const auto rows = unwanted > 0 ? std::min<std::size_t>(unwanted, program.max_tokens)
                                   : static_cast<std::size_t>(std::min(program.max_tokens, program.max_selected));
    const Ids part = ids.subspan(first, std::min(rows, ids.size() - first));
    const std::size_t wanted = unwanted > 0 ? 0 : part.size();
    const auto logits = step(*prefill_, part, wanted);
    if (wanted > 0) on_logits(static_cast<std::int64_t>(first), static_cast<std::int64_t>(wanted), logits);
  }
  return {};
}

}  // namespace

std::int64_t usual_ctx(const Bundle& bundle) {
  constexpr std::int64_t most = 4096;
  return bundle.trained_ctx > 0 ? std::min(bundle.trained_ctx, most) : most;
}

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::context:
      return "context";
    case Finish::cancelled:
      return "cancelled";
  }
  return "";
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Bundle> bundle, const SessionOptions& options) {
  CHECK(bundle->prefill && bundle->decode && bundle->vocab > 0);
  if (options.kv != DType::F16 && options.kv != DType::F32)
    return usage_error("the KV cache is kept as F16 or F32, not {}", name(options.kv));
  constexpr int most_threads = 1024;
  if (options.threads < 0 || options.threads > most_threads)
    return usage_error("threads: expected 1 to {}, or 0 for the cores there are; found {}", most_threads,
                       options.threads);
  const int threads = options.threads > 0 ? options.threads : available_cores();
  TRY(const Isa isa, choose_isa(options.isa));
  TRY(const std::int64_t ctx, choose_ctx(*bundle, options));
  TRY(auto kv, KvCache::create(bundle->decode->states, 1, ctx, options.kv));
  if (const std::int64_t trained = bundle->trained_ctx; trained > 0 && ctx > trained)
    warn("{}: a context of {} tokens is longer than the {} it was trained for; its text may get worse beyond those",
         bundle->name, ctx, trained);
  try {
    auto session = std::make_unique<LocalSession>(std::move(bundle), std::move(kv), ctx, threads);
    TRY_VOID(session->start(isa, options.load_tokenizer, options.exact));
    return std::unique_ptr<Session>(std::move(session));
  } catch (const std::system_error& error) {
    return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", threads, error.what());
  }
}

}  // namespace knapsack
