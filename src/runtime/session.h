// A session: one bundle, one KV cache, one conversation's position; generates text within the context contract:
// prompt + completion <= ctx. Not for batching many users: the server issue builds that on the same executor.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "bundle/bundle.h"
#include "program/executor.h"
#include "runtime/sampler.h"
#include "text/tokenizer.h"

namespace knapsack {

struct SessionOptions {
  std::int64_t ctx = 0;     // 0: min(trained, 4096)
  DType kv = DType::F16;
  int threads = 0;          // 0: available_cores()
  std::optional<Isa> isa;   // absent: KNAPSACK_ISA, else the fastest
};

enum class Finish : std::uint8_t { stop, length, context, cancelled };
std::string_view finish_name(Finish finish);  // "stop", "length", "context", "cancelled"

struct GenerateOptions {
  std::int64_t max_tokens = -1;  // -1: to the end of the context
  SamplerOptions sampler;
  std::vector<std::string> stop;
  int logprobs = 0;
  bool ignore_eos = false;
};

struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
  std::vector<std::pair<std::int32_t, float>> top;  // best first
};

struct Completion {
  std::string text;
  std::vector<std::int32_t> ids;
  std::int64_t prompt_tokens = 0;
  Finish finish{};
  double ttft_ms = 0, prefill_ms = 0, decode_ms = 0;
  std::vector<TokenLogprob> logprobs;
};

class Session {
 public:
  // Starts loading the tokenizer in its own thread and returns as soon as the weights are bound.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Bundle> bundle, const SessionOptions& options);
  virtual ~Session() = default;
  // Waits for the tokenizer. `unsupported` when the model has none.
  virtual Result<std::shared_ptr<const Tokenizer>> tokenizer() = 0;
  // prompt: the whole conversation's ids; what the KV cache already holds of it is not computed again.
  // on_text gets whole characters. A prompt longer than ctx is a usage error before any work.
  virtual Result<Completion> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options,
                                      const std::function<void(std::string_view)>& on_text, std::stop_token stop) = 0;
  // Logits of every position of `ids` (<= ctx), handed over chunk by chunk: [rows, vocab] from position `first`.
  virtual Result<void> score(std::span<const std::int32_t> ids,
                             const std::function<void(std::int64_t first, std::int64_t rows, std::span<const float>)>& on_logits) = 0;
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t ctx() const = 0;
  [[nodiscard]] virtual const Bundle& bundle() const = 0;
  [[nodiscard]] virtual std::size_t kv_bytes() const = 0;
  [[nodiscard]] virtual std::size_t arena_bytes() const = 0;
};

}  // namespace knapsack
