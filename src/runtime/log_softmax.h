// Probabilities from a row of logits, in double: for log-probabilities and for scoring text.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/completion.h"

namespace knapsack {

// log(sum(exp(logits))); NaN if any logit is NaN or +inf, -inf if all are -inf.
double log_sum_exp(std::span<const float> logits);

// The log-probability of `id`, and those of the `count` likeliest tokens (ties to the lower id).
TokenLogprob token_logprob(std::span<const float> logits, std::int32_t id, int count);

}  // namespace knapsack
