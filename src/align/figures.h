// What an error between values of A and of B is measured by. Not for whose error it is: align.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace knapsack {

// Sums over pairs of values.
struct Sums {
  double ab = 0, aa = 0, bb = 0, dd = 0, max_abs = 0;
  std::int64_t not_finite = 0;  // values that are in one alone

  void add(float a, float b);
  void add(const Sums& other);
  [[nodiscard]] double cosine() const;
  [[nodiscard]] double rel_l2() const;
  [[nodiscard]] double sqnr_db() const;
};
Sums compare(std::span<const float> a, std::span<const float> b);

// How far one side's values go, and how many of B's stand at an end that A's go beyond.
struct Range {
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  double a_low = infinity, a_high = -infinity, b_low = infinity, b_high = -infinity;
  std::int64_t at_low = 0, at_high = 0, all = 0;

  void add(std::span<const float> a, std::span<const float> b);
  [[nodiscard]] double saturated() const;  // share of all
};

// Of logits, sum p_A (log p_A - log p_B). Infinite where either side has logits that are no numbers.
double kl_divergence(std::span<const float> a, std::span<const float> b);
std::ptrdiff_t likeliest(std::span<const float> logits);

}  // namespace knapsack
