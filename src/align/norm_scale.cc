#include "align/norm_scale.h"

#include <cmath>
#include <cstddef>

namespace knapsack {
namespace {

constexpr std::int64_t enough = 8;  // norms: as many signs that agree by chance are one in 128
constexpr double most_of_it = 0.9;  // share of the errors' squares that one epsilon explains

}  // namespace

// y = x w / sqrt(m + epsilon), so of B's and A's: (1 + factor)^2 = (m + A's) / (m + B's).
void NormScale::add(std::span<const float> x, std::span<const float> a, std::span<const float> b, std::int64_t width,
                    double epsilon) {
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(width)) {
    double square = 0, aa = 0, ad = 0;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(width); ++i) {
      const double made = a[i], error = static_cast<double>(b[i]) - made;
      square += static_cast<double>(x[i]) * x[i];
      aa += made * made;
      ad += made * error;
    }
    const double mean = square / static_cast<double>(width) + epsilon;
    const double factor = aa > 0 ? ad / aa : 0;
    if (!std::isfinite(factor) || !std::isfinite(mean) || mean <= 0 || factor <= -1) continue;
    const double more = mean * (1 / ((1 + factor) * (1 + factor)) - 1);
    const double weight = 1 / (mean * mean);
    ++norms_;
    weights_ += weight;
    epsilons_ += weight * more;
    squares_ += weight * more * more;
    factors_ += factor;
  }
}

std::optional<NormScale::Found> NormScale::found(double rounding) const {
  if (norms_ == 0 || squares_ <= 0) return {};
  Found found{.factor = factors_ / static_cast<double>(norms_), .epsilon = epsilons_ / weights_};
  found.of_epsilon = norms_ >= enough && epsilons_ * epsilons_ > most_of_it * weights_ * squares_;
  if (rounding == 0) return found;
  if (!found.of_epsilon || std::abs(found.factor) < rounding) return {};
  return found;
}

}  // namespace knapsack
