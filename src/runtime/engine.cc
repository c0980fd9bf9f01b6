#include "runtime/engine.h"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mmap.h"
#include "program/pack.h"

namespace knapsack {
namespace {

Result<std::int64_t> choose_ctx(const Bundle& bundle, std::int64_t wanted) {
  if (wanted < 0) return usage_error("the context length must be positive, found {}", wanted);
  const std::int64_t ctx = wanted > 0 ? wanted : usual_ctx(bundle);
  if (ctx > std::numeric_limits<std::int32_t>::max())
    return usage_error("a context of {} tokens is more than this program counts; at most {} are possible", ctx,
                       std::numeric_limits<std::int32_t>::max());
  return ctx;
}

// Asks the kernel to read the weights ahead; without it each page would be a fault in the first step.
void prefetch(const Bundle& bundle, const std::stop_token& stop) {
  for (const auto& weight : bundle.prefill->weights) {
    const auto bytes = static_cast<std::size_t>(weight->bytes()) / std::max<std::size_t>(1, weight->slabs.size());
    for (const std::byte* slab : weight->slabs) {
      if (stop.stop_requested()) return;
      prefetch_pages({slab, bytes});
    }
  }
}

TokenizerResult make_tokenizer(const Bundle& bundle) {
  if (!bundle.tokenizer_json) return unsupported("{}: the model has no tokenizer; give it token ids", bundle.name);
  TRY(const std::string text, bundle.tokenizer_json());
  return Tokenizer::from_json(text, "tokenizer of " + bundle.name);
}

TokenizerResult read_tokenizer(const Bundle& bundle) {
  TokenizerResult tokenizer = make_tokenizer(bundle);
#ifdef __GLIBC__
  ::malloc_trim(0);  // what making it took would stay with this process, too little at a time for the next large need
#endif
  return tokenizer;
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

Result<std::shared_ptr<ThreadPool>> make_pool(int wanted) {
  constexpr int most_threads = 1024;
  if (wanted < 0 || wanted > most_threads)
    return usage_error("threads: expected 1 to {}, or 0 for the cores there are; found {}", most_threads, wanted);
  const int threads = wanted > 0 ? wanted : available_cores();
  try {
    return std::make_shared<ThreadPool>(threads);
  } catch (const std::system_error& error) {
    return out_of_resource("cannot start {} threads: {}; ask for fewer (--threads)", threads, error.what());
  }
}

}  // namespace

std::int64_t usual_ctx(const Bundle& bundle) {
  constexpr std::int64_t most = 4096;
  return bundle.trained_ctx > 0 ? std::min(bundle.trained_ctx, most) : most;
}

Engine::Engine(std::shared_ptr<const Bundle> bundle, KvCache kv, std::shared_ptr<ThreadPool> pool)
    : bundle_(std::move(bundle)), kv_(std::move(kv)), pool_(std::move(pool)) {
  const auto most = static_cast<std::size_t>(std::max(chunk(), rows()));
  positions_.resize(most);
  slots_.resize(most);
  selected_.resize(most);
  std::iota(selected_.begin(), selected_.end(), 0);
  held_.resize(static_cast<std::size_t>(kv_.slots()));
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Bundle> bundle, const EngineOptions& options) {
  CHECK(bundle->prefill && bundle->decode && bundle->vocab > 0);
  CHECK(bundle->decode->max_tokens == bundle->decode->max_selected);
  if (options.kv != DType::F16 && options.kv != DType::F32 && options.kv != DType::Q8_0)
    return usage_error("the KV cache is kept as F16, F32 or Q8_0, not {}", name(options.kv));
  auto pool = options.pool;
  if (pool == nullptr) {
    TRY(pool, make_pool(options.threads));
  }
  TRY(const Isa isa, choose_isa(options.isa));
  TRY(const std::int64_t ctx, choose_ctx(*bundle, options.ctx));
  TRY(auto kv, KvCache::create(bundle->decode->states, options.slots, ctx, options.kv));
  if (const std::int64_t trained = bundle->trained_ctx; trained > 0 && ctx > trained)
    warn("{}: a context of {} tokens is longer than the {} it was trained for; its text may get worse beyond those",
         bundle->name, ctx, trained);
  std::unique_ptr<Engine> engine(new Engine(std::move(bundle), std::move(kv), std::move(pool)));
  try {
    TRY_VOID(engine->start(isa, options));
  } catch (const std::system_error& error) {
    return out_of_resource("cannot start a thread: {}", error.what());
  }
  return engine;
}

Result<void> Engine::start(Isa isa, const EngineOptions& options) {
  if (options.load_tokenizer) load_tokenizer();
  prefetch_ = std::jthread([bundle = bundle_](const std::stop_token& stop) { prefetch(*bundle, stop); });
  if (!options.exact) {
    TRY(packed_, pack_weights(*bundle_->prefill, isa, *pool_, memory_for_weights(kv_)));
    if (const auto left = packed_->left(); !left.empty()) {
      const std::int64_t bytes = std::accumulate(left.begin(), left.end(), std::int64_t{0},
                                                 [](std::int64_t sum, const Weight* w) { return sum + w->bytes(); });
      warn(
          "{}: its experts' {} MiB are more than there is memory for; they stay in the file and are read as they are "
          "chosen, which is slower",
          bundle_->name, bytes >> 20);
    }
  }
  TRY(prefill_, Executor::create(bundle_->prefill, kv_, *pool_, isa, packed_.get()));
  TRY(decode_, Executor::create(bundle_->decode, kv_, *pool_, isa, packed_.get()));
  for (auto& ids : held_) ids.reserve(static_cast<std::size_t>(ctx()));
  return {};
}

void Engine::load_tokenizer() {
  tokenizer_ = std::async(std::launch::async, [bundle = bundle_] { return read_tokenizer(*bundle); }).share();
}

TokenizerResult Engine::tokenizer() {
  try {
    if (!tokenizer_.valid()) load_tokenizer();
  } catch (const std::system_error& error) {
    return out_of_resource("cannot start a thread for the tokenizer: {}", error.what());
  }
  return tokenizer_.get();
}

Result<void> Engine::check_ids(Ids ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= bundle_->vocab)
      return usage_error("token {} of the prompt has id {}; this model's ids go from 0 to {}", i, ids[i],
                         bundle_->vocab - 1);
  return {};
}

Result<std::int32_t> Engine::bos() {
  const auto name = bos_token(bundle_->tokenizer_config_json);
  if (has_tokenizer() && name) {
    TRY(const auto tokenizer, this->tokenizer());
    const auto id = tokenizer->id_of(*name);
    if (id) return *id;
  }
  return usage_error("the prompt is empty, and the model has no BOS token to begin with; give it some text");
}

std::span<const float> Engine::extend(std::int64_t slot, Ids ids, std::int64_t wanted) {
  const auto count = static_cast<std::int64_t>(ids.size());
  auto& held = this->held(slot);
  const auto past = static_cast<std::int32_t>(held.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    positions_[i] = past + static_cast<std::int32_t>(i);
    slots_[i] = static_cast<std::int32_t>(slot);
  }
  // Few tokens go through the program made for few.
  Executor& executor = count <= rows() ? *decode_ : *prefill_;
  const auto logits = executor.run(
      {.ids = ids,
       .positions = Ids(positions_).first(ids.size()),
       .slots = Ids(slots_).first(ids.size()),
       .selected = Ids(selected_).subspan(static_cast<std::size_t>(count - wanted), static_cast<std::size_t>(wanted))});
  held.insert(held.end(), ids.begin(), ids.end());
  return logits;
}

std::span<const float> Engine::extend_each(Ids slots, Ids ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) positions_[i] = static_cast<std::int32_t>(held(slots[i]).size());
  const auto logits = decode_->run({.ids = ids,
                                    .positions = Ids(positions_).first(ids.size()),
                                    .slots = slots,
                                    .selected = Ids(selected_).first(ids.size())});
  for (std::size_t i = 0; i < ids.size(); ++i) held(slots[i]).push_back(ids[i]);
  return logits;
}

std::int64_t Engine::keep_prefix(std::int64_t slot, Ids ids) {
  auto& held = this->held(slot);
  std::size_t known = 0;
  while (known < held.size() && known + 1 < ids.size() && held[known] == ids[known]) ++known;
  held.resize(known);
  return static_cast<std::int64_t>(known);
}

}  // namespace knapsack
