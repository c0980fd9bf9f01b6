#include "align/routing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace knapsack {
namespace {

std::ptrdiff_t place(Experts experts, std::int32_t expert) {
  const auto at = std::find(experts.begin(), experts.end(), expert);
  return at == experts.end() ? -1 : at - experts.begin();
}

std::vector<std::int32_t> alone(Experts own, Experts others) {
  std::vector<std::int32_t> out;
  for (const std::int32_t expert : own)
    if (place(others, expert) < 0) out.push_back(expert);
  return out;
}

}  // namespace

Disagreement disagreement(Experts a, Experts b, std::span<const float> scores) {
  Disagreement out{.a = alone(a, b), .b = alone(b, a)};
  if (out.a.empty() || out.b.empty() || scores.empty()) return out;
  // Every one that A chose had to fall below some one that it did not.
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  const auto score = [&](std::int32_t expert) -> double { return scores[static_cast<std::size_t>(expert)]; };
  for (const std::int32_t expert : out.a) {
    lowest = std::min(lowest, score(expert));
    highest = std::max(highest, score(expert));
  }
  double low_other = std::numeric_limits<double>::infinity(), high_other = -low_other;
  for (const std::int32_t expert : out.b) {
    low_other = std::min(low_other, score(expert));
    high_other = std::max(high_other, score(expert));
  }
  const double margin = std::max(std::abs(highest - low_other), std::abs(lowest - high_other));
  if (std::isfinite(margin)) out.margin = margin;
  return out;
}

std::vector<float> in_order_of(Experts a, Experts b, std::span<const float> weights) {
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < b.size(); ++i)
    if (place(a, b[i]) < 0) others.push_back(i);
  std::vector<float> out;
  out.reserve(a.size());
  std::size_t other = 0;
  for (const std::int32_t expert : a) {
    const std::ptrdiff_t at = place(b, expert);
    if (at >= 0) {
      out.push_back(weights[static_cast<std::size_t>(at)]);
    } else {
      out.push_back(other < others.size() ? weights[others[other++]] : 0.0F);
    }
  }
  return out;
}

Dense dense(Experts a, std::span<const float> a_weights, Experts b, std::span<const float> b_weights) {
  Dense out;
  const auto weight = [](Experts own, std::span<const float> weights, std::int32_t expert) {
    const std::ptrdiff_t at = place(own, expert);
    return at < 0 ? 0.0F : weights[static_cast<std::size_t>(at)];
  };
  const auto add = [&](std::int32_t expert) {
    out.a.push_back(weight(a, a_weights, expert));
    out.b.push_back(weight(b, b_weights, expert));
  };
  for (const std::int32_t expert : a) add(expert);
  for (const std::int32_t expert : b)
    if (place(a, expert) < 0) add(expert);
  return out;
}

}  // namespace knapsack
