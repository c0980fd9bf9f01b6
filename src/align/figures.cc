#include "align/figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace knapsack {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double log_of_sum(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  const double sum = std::accumulate(logits.begin(), logits.end(), 0.0, [&](double s, float logit) {
    return s + std::exp(static_cast<double>(logit) - most);
  });
  return most + std::log(sum);
}

}  // namespace

void Sums::add(float a, float b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    not_finite += same ? 0 : 1;
    return;
  }
  const double x = a, y = b, d = x - y;
  ab += x * y, aa += x * x, bb += y * y, dd += d * d;
  max_abs = std::max(max_abs, std::abs(d));
}

void Sums::add(const Sums& other) {
  ab += other.ab, aa += other.aa, bb += other.bb, dd += other.dd;
  max_abs = std::max(max_abs, other.max_abs);
  not_finite += other.not_finite;
}

double Sums::cosine() const {
  if (not_finite > 0) return 0;
  if (dd == 0) return 1;
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

double Sums::rel_l2() const {
  if (not_finite > 0) return infinity;
  if (dd == 0) return 0;
  return aa > 0 ? std::sqrt(dd / aa) : infinity;
}

double Sums::sqnr_db() const {
  if (not_finite > 0) return -infinity;
  return dd > 0 ? 10 * std::log10(aa / dd) : infinity;
}

Sums compare(std::span<const float> a, std::span<const float> b) {
  Sums sums;
  for (std::size_t i = 0; i < a.size(); ++i) sums.add(a[i], b[i]);
  return sums;
}

void Range::add(std::span<const float> a, std::span<const float> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    const double x = a[i], y = b[i];
    a_low = std::min(a_low, x), a_high = std::max(a_high, x);
    if (y < b_low) b_low = y, at_low = 0;
    if (y > b_high) b_high = y, at_high = 0;
    at_low += y == b_low && x < y ? 1 : 0;
    at_high += y == b_high && x > y ? 1 : 0;
    ++all;
  }
}

double Range::saturated() const {
  if (all == 0) return 0;
  // One value at the end is just the largest.
  const std::int64_t low = at_low > 1 ? at_low : 0, high = at_high > 1 ? at_high : 0;
  return static_cast<double>(low + high) / static_cast<double>(all);
}

double kl_divergence(std::span<const float> a, std::span<const float> b) {
  const double a_log = log_of_sum(a), b_log = log_of_sum(b);
  if (!std::isfinite(a_log) || !std::isfinite(b_log)) return infinity;
  double kl = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double p = std::exp(static_cast<double>(a[i]) - a_log);
    if (p > 0) kl += p * (static_cast<double>(a[i]) - static_cast<double>(b[i]) - (a_log - b_log));
  }
  return std::max(0.0, kl);
}

std::ptrdiff_t likeliest(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

}  // namespace knapsack
