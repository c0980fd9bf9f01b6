// A session: one bundle, one KV cache, one conversation's position; generates text within the context contract:
// prompt + completion <= ctx. A prompt longer than ctx is an error before any work; one of exactly ctx tokens yields
// none; generation that reaches the end stops with Finish::context. Not thread-safe. Not for several texts at once:
// batch.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "base/result.h"
#include "bundle/bundle.h"
#include "kernels/kernel.h"
#include "runtime/completion.h"
#include "text/tokenizer.h"

namespace knapsack {

struct SessionOptions {
  std::int64_t ctx = 0;  // 0: min(trained, 4096). Beyond the trained length: allowed, with a warning
  DType kv = DType::F16;
  int threads = 0;             // 0: available_cores()
  bool exact = false;          // float products; false: integer ones where formats allow (kernels/packed.h)
  std::optional<Isa> isa{};    // absent: KNAPSACK_ISA, else the fastest
  bool load_tokenizer = true;  // false: only when tokenizer() or text first asks for it
  bool lookup = false;         // guess tokens from what the text holds already (speculation.h); the text stays the same
  std::shared_ptr<const Bundle> draft{};  // a small model of the same vocabulary that guesses, too; null: none
  std::int64_t guesses = -1;  // so many tokens a step where there are any, whatever it costs; -1: as many as pay
};

class Session {
 public:
  // Starts loading the tokenizer in its own thread and returns as soon as the weights are bound.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Bundle> bundle, const SessionOptions& options);
  virtual ~Session() = default;
  // Waits for the tokenizer. `unsupported` when the model has none.
  virtual Result<std::shared_ptr<const Tokenizer>> tokenizer() = 0;
  // prompt: the whole conversation's ids; what the KV cache already holds of it is not computed again.
  // The result does not depend on that. An empty prompt stands for the tokenizer's BOS. on_text gets whole
  // characters; text that may yet become a stop string is held back. Of several stop strings the first to be complete
  // wins, the longest if several are at once; one that names a special token stops at that token. Cancelling
  // takes effect within one step and keeps what there is.
  virtual Result<Completion> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                      const OnText& on_text, std::stop_token stop) = 0;
  // Logits of every position of `ids` (<= ctx) from `from` on, handed over chunk by chunk: [rows, vocab], the first
  // row being position `first`. A chunk is as many rows as the prefill program can select. Nothing of the cache is
  // reused. Stopping is Code::interrupted.
  using OnLogits = std::function<void(std::int64_t first, std::int64_t rows, std::span<const float>)>;
  virtual Result<void> score(std::span<const std::int32_t> ids, std::int64_t from, const OnLogits& on_logits,
                             std::stop_token stop) = 0;
  Result<void> score(std::span<const std::int32_t> ids, const OnLogits& on_logits) {
    return score(ids, 0, on_logits, {});
  }
  virtual void reset() = 0;  // forgets what the KV cache holds
  [[nodiscard]] virtual std::int64_t ctx() const = 0;
  [[nodiscard]] virtual const Bundle& bundle() const = 0;
  [[nodiscard]] virtual std::size_t kv_bytes() const = 0;
  [[nodiscard]] virtual std::size_t arena_bytes() const = 0;
};

}  // namespace knapsack
