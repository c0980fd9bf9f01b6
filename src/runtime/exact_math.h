// exp and log from additions and multiplications alone, so that every IEEE 754 machine gives the same bits (libm's
// versions differ between processors in the last one). Relative error below 1e-15; built with -ffp-contract=off.
// Not for kernels: speed matters there, and tolerances cover the difference.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace knapsack {

inline constexpr double ln2 = 0.693147180559945309417232121458;

// Taylor series on [-0.35, 0.35]; the first term left out is below 1e-17 of the whole.
inline constexpr std::array<double, 14> exp_series{
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};

// 0 below -708 (where doubles go subnormal), infinity above 709. NaN is not expected.
inline double exact_exp(double x) {
  if (x < -708) return 0;
  if (x > 709) return std::numeric_limits<double>::infinity();
  const auto k = static_cast<std::int64_t>(x / ln2 + (x < 0 ? -0.5 : 0.5));
  // ln 2 in two parts: the first has 21 trailing zero bits, so k * hi is exact.
  constexpr double hi = 6.93147180369123816490e-01;
  constexpr double lo = 1.90821492927058770002e-10;
  const double r = (x - static_cast<double>(k) * hi) - static_cast<double>(k) * lo;
  double sum = exp_series[13];
  for (int n = 12; n >= 0; --n) sum = sum * r + exp_series[static_cast<std::size_t>(n)];
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(k + 1023) << 52);
}

// Natural logarithm of a normal positive number; minus infinity for anything smaller.
inline double exact_log(double x) {
  if (x < std::numeric_limits<double>::min()) return -std::numeric_limits<double>::infinity();
  auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh z, z = (m - 1) / (m + 1), |z| < 0.172: the first term left out is below 1e-17.
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * z2 + 1.0 / n;
  return static_cast<double>(exponent) * ln2 + 2 * z * sum;
}

}  // namespace knapsack
