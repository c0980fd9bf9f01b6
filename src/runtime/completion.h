// What is asked of a model (GenerateOptions) and what comes back (Completion).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/sampler.h"

namespace knapsack {

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
  double decode_ms = 0;   // from the first token to the last: decode_tokens tokens, in decode_steps steps
  std::int64_t decode_tokens = 0;
  std::int64_t decode_steps = 0;
  std::int64_t drafted = 0;            // tokens that speculation guessed and the model was asked about
  std::int64_t accepted = 0;           // of these, tokens that the model then said itself
  std::vector<TokenLogprob> logprobs;  // one for each of ids, if asked for
};

// Gets whole characters, piece by piece; may be empty.
using OnText = std::function<void(std::string_view)>;

}  // namespace knapsack
