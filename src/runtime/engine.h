// A model ready to compute: its programs bound to a KV cache of several slots, a pool of threads, and the tokenizer
// that loads beside. Session has one with one slot, Batch one with many; a draft model is one, too. Not for what is
// made of the logits: writer.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "bundle/bundle.h"
#include "program/executor.h"
#include "text/tokenizer.h"

namespace knapsack {

using Ids = std::span<const std::int32_t>;
using TokenizerResult = Result<std::shared_ptr<const Tokenizer>>;

struct EngineOptions {
  std::int64_t slots = 1;  // sequences the KV cache holds
  std::int64_t ctx = 0;    // tokens of each; 0: usual_ctx(). Beyond the trained length: allowed, with a warning
  DType kv = DType::F16;
  int threads = 0;  // 0: available_cores()
  bool exact = false;
  std::optional<Isa> isa{};
  bool load_tokenizer = true;
  std::shared_ptr<ThreadPool> pool{};  // null: an own one of `threads`
};

// The context where none is asked for: what the model was trained for, at most 4096.
std::int64_t usual_ctx(const Bundle& bundle);

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Bundle> bundle, const EngineOptions& options);

  // Waits for the tokenizer. `unsupported` when the model has none.
  TokenizerResult tokenizer();
  [[nodiscard]] bool has_tokenizer() const { return static_cast<bool>(bundle_->tokenizer_json); }
  // A usage error for an id outside the vocabulary.
  [[nodiscard]] Result<void> check_ids(Ids ids) const;
  // The token that begins a text; a usage error when there is none.
  Result<std::int32_t> bos();

  // Runs `ids` at the end of what `slot` holds, at most chunk() of them. The logits of the last `wanted`, valid until
  // the next step. Allocates nothing.
  std::span<const float> extend(std::int64_t slot, Ids ids, std::int64_t wanted);
  // Runs ids[i] at the end of what slots[i] holds, at most rows() of them, each slot once: [ids, vocab].
  std::span<const float> extend_each(Ids slots, Ids ids);
  [[nodiscard]] std::int64_t chunk() const { return bundle_->prefill->max_tokens; }
  [[nodiscard]] std::int64_t rows() const { return bundle_->decode->max_selected; }

  // The ids whose KV rows `slot` holds. Shortening this is how rows are given up: they are then written anew.
  [[nodiscard]] std::vector<std::int32_t>& held(std::int64_t slot) { return held_[static_cast<std::size_t>(slot)]; }
  // Keeps of `slot` what `ids` begins with, but never all of `ids`: the last one is run for its logits. Gives back how
  // many were kept.
  std::int64_t keep_prefix(std::int64_t slot, Ids ids);

  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }
  [[nodiscard]] std::int64_t ctx() const { return kv_.ctx(); }
  [[nodiscard]] std::int64_t slots() const { return kv_.slots(); }
  [[nodiscard]] const std::shared_ptr<ThreadPool>& pool() const { return pool_; }
  [[nodiscard]] std::size_t kv_bytes() const { return kv_.bytes(); }
  [[nodiscard]] std::size_t arena_bytes() const { return prefill_->bytes() + decode_->bytes(); }

 private:
  Engine(std::shared_ptr<const Bundle> bundle, KvCache kv, std::shared_ptr<ThreadPool> pool);
  Result<void> start(Isa isa, const EngineOptions& options);
  void load_tokenizer();

  std::shared_ptr<const Bundle> bundle_;
  KvCache kv_;
  std::shared_ptr<ThreadPool> pool_;
  std::unique_ptr<PackedWeights> packed_;  // null: float products
  std::unique_ptr<Executor> prefill_, decode_;
  std::vector<std::int32_t> positions_, slots_, selected_;  // of a step; selected_ counts up from 0
  std::vector<std::vector<std::int32_t>> held_;             // by slot
  std::shared_future<TokenizerResult> tokenizer_;
  std::jthread prefetch_;
};

}  // namespace knapsack
