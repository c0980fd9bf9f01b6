#include "runtime/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace knapsack {

double log_sum_exp(std::span<const float> logits) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float best = -infinity;
  for (const float logit : logits) {
    if (!(logit < infinity)) return std::numeric_limits<double>::quiet_NaN();
    best = std::max(best, logit);
  }
  if (best == -infinity) return -std::numeric_limits<double>::infinity();
  double sum = 0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - best));
  return static_cast<double>(best) + std::log(sum);
}

TokenLogprob token_logprob(std::span<const float> logits, std::int32_t id, int count) {
  const double total = log_sum_exp(logits);
  const auto logprob = [&](std::int32_t i) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(i)]) - total);
  };
  TokenLogprob result{.id = id, .logprob = logprob(id), .top = {}};
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float la = logits[static_cast<std::size_t>(a)];
    const float lb = logits[static_cast<std::size_t>(b)];
    return la != lb ? la > lb : a < b;
  };
  // A heap of the best so far, its worst on top: no copy of the vocabulary.
  std::vector<std::int32_t> best;
  const auto wanted = std::min(logits.size(), static_cast<std::size_t>(std::max(count, 0)));
  best.reserve(wanted + 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto candidate = static_cast<std::int32_t>(i);
    if (best.size() == wanted && (wanted == 0 || !better(candidate, best.front()))) continue;
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), better);
    if (best.size() > wanted) {
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  for (const auto i : best) result.top.emplace_back(i, logprob(i));
  return result;
}

}  // namespace knapsack
