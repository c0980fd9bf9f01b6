// Perplexity of a text under a model: exp of the mean negative log-likelihood of its tokens.
// Two ways to cut a text longer than the window, which give different numbers and must be named with them:
//   sliding  windows of `window` tokens that begin `stride` apart; each scores the tokens the one before did not reach,
//            so every token but the text's first is scored once (https://huggingface.co/docs/transformers/perplexity)
//   llama    disjoint chunks of `window` tokens; where the tokenizer adds a BOS it takes the place of each chunk's
//   first
//            token; the tokens after the chunk's middle one are scored; a rest shorter than a chunk is left out
//            (what llama.cpp's llama-perplexity does)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>

#include "base/result.h"
#include "runtime/session.h"

namespace knapsack {

enum class PerplexityMethod : std::uint8_t { sliding, llama };
std::string_view method_name(PerplexityMethod method);

struct PerplexityOptions {
  PerplexityMethod method = PerplexityMethod::sliding;
  std::int64_t window = 512;
  std::int64_t stride = 0;  // sliding only; 0: half the window
  // done: share of the work, 0 to 1; perplexity: of what is scored so far.
  std::function<void(double done, double perplexity)> progress{};
};

struct PerplexityReport {
  double perplexity = 0;
  std::optional<double>
      standard_error;        // of the perplexity, from the spread of the tokens' likelihoods; of two or more
  double mean_nll = 0;       // nats a token
  double bits_per_byte = 0;  // of the scored tokens' text
  std::int64_t tokens = 0;   // of the text
  std::int64_t scored = 0;   // of these
  std::int64_t scored_bytes = 0;
  std::int64_t windows = 0;
  std::int64_t evaluated = 0;  // tokens run through the model, those of overlaps counted each time
  double seconds = 0;
  double tokens_per_s = 0;  // evaluated tokens a second
};

// The session's context must hold a window. A text of too few tokens is `bad_input`, with the number needed; so are
// logits that are not numbers. Stopping is Code::interrupted.
Result<PerplexityReport> perplexity(Session& session, std::string_view text, const PerplexityOptions& options,
                                    const std::stop_token& stop = {});

}  // namespace knapsack
