// A session: one bundle, one KV cache, one conversation's position; generates text within the context contract:
// prompt + completion <= ctx. A prompt longer than ctx is an error before any work; one of exactly ctx tokens yields
// none; generation that reaches the end stops with Finish::context. Not thread-safe. Not for batching many users: the
// server issue builds that on the same executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bundle/bundle.h"
#include "program/executor.h"
#include "runtime/sampler.h"
#include "text/tokenizer.h"

namespace knapsack {

// The context of a session that asks for none: what the model was trained for, at most 4096.
std::int64_t usual_ctx(const Bundle& bundle);

struct SessionOptions {
  std::int64_t ctx = 0;  // 0: min(trained, 4096). Beyond the trained length: allowed, with a warning
  DType kv = DType::F16;
  int threads = 0;             // 0: available_cores()
  bool exact = true;           // float products; false: integer ones where formats allow (kernels/packed.h)
  std::optional<Isa> isa{};    // absent: KNAPSACK_ISA, else the fastest
  bool load_tokenizer = true;  // false: only when tokenizer() or text first asks for it
};

// length is said when the max_tokens asked for are there, also where that is the context's end too.
enum class Finish : std::uint8_t { stop, length, context, cancelled };
std::string_view finish_name(Finish finish);  // "stop", "length", "context", "cancelled"

struct GenerateOptions {
  std::int64_t max_tokens = -1;  // -1: to the end of the context
  SamplerOptions sampler{};
  std::vector<std::string> stop{};
  int logprobs = 0;  // how many alternatives a token
  bool ignore_eos = false;
};

// Natural logarithms of the model's own probabilities: before bias, penalties, temperature and truncation.
struct TokenLogprob {
  std::int32_t id = 0;
  float logprob = 0;
  std::vector<std::pair<std::int32_t, float>> top;  // best first
};

struct Completion {
  std::string text;               // what on_text got, in one piece: no special tokens, nothing of a stop string
  std::vector<std::int32_t> ids;  // without the end token; with those that spelled a stop string
  std::int64_t prompt_tokens = 0;
  std::int64_t prefilled_tokens = 0;  // of these, computed now: the rest was in the KV cache
  Finish finish{};
  double ttft_ms = 0;     // from the call to the first token (0 when there was none)
  double prefill_ms = 0;  // computing the prompt
  double decode_ms = 0;   // from the first token to the last: decode_steps tokens
  std::int64_t decode_steps = 0;
  std::vector<TokenLogprob> logprobs;  // one for each of ids, if asked for
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
                                      const std::function<void(std::string_view)>& on_text, std::stop_token stop) = 0;
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
