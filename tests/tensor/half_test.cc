// Half and bfloat16 conversions, exhaustively against the definition and, where the CPU has it, F16C.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "tensor/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace knapsack {
namespace {

double half_value(unsigned h) {
  const double sign = (h & 0x8000U) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(h >> 10 & 31);
  const double mantissa = h & 1023;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryHalfIsItsValueAndComesBack) {
  for (unsigned h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const float value = half_to_float(half);
    if ((h & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(value)) << h;
      EXPECT_GT(float_to_half(value) & 0x7fff, 0x7c00) << h;
      continue;
    }
    if ((h & 0x7fff) == 0x7c00)
      EXPECT_TRUE(std::isinf(value)) << h;
    else
      EXPECT_EQ(static_cast<double>(value), half_value(h)) << h;
    EXPECT_EQ(std::signbit(value), (h & 0x8000) != 0);
    EXPECT_EQ(float_to_half(value), half);
    EXPECT_EQ(float_to_bf16(bf16_to_float(half)), half);
  }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) float hardware_float(std::uint16_t h) { return _cvtsh_ss(h); }
__attribute__((target("f16c"))) std::uint16_t hardware_half(float f) { return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT); }

TEST(Half, AgreesWithF16C) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "no F16C";
  for (unsigned h = 0; h < 0x10000; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    if ((h & 0x7fff) > 0x7c00) continue;  // a NaN's payload is nobody's business
    EXPECT_EQ(std::bit_cast<std::uint32_t>(half_to_float(half)), std::bit_cast<std::uint32_t>(hardware_float(half)));
  }
  // Every float exponent with mantissas at, just below and just above the places where rounding turns.
  for (std::uint32_t top = 0; top < 0x20000; ++top)
    for (const std::uint32_t low : {0U, 1U, 0x0fffU, 0x1000U, 0x1001U, 0x1fffU, 0x3000U}) {
      const auto value = std::bit_cast<float>(top << 15 | low);
      if (std::isnan(value)) continue;
      ASSERT_EQ(float_to_half(value), hardware_half(value)) << value;
    }
  std::mt19937 random(7);
  for (int i = 0; i < 2000000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), hardware_half(value)) << value;
  }
}
#endif

TEST(Half, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);  // a tie, to even
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f7fffffU)), 0x7f80);  // overflows to infinity
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace knapsack
