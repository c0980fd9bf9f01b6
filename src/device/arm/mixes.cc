// The loops for 64-bit ARM. Instructions beyond plain NEON are written out, so that the file needs no compiler option;
// they only run where the processor has them. An empty asm that "changes" an operand keeps the compiler from making one
// product of many equal ones; it costs no instruction.
#include <arm_neon.h>

#include "device/mixes.h"

namespace knapsack {
namespace {

constexpr int chains = 16;  // independent sums, for 4 cycles of latency and up to four instructions a cycle

void fma_128(std::int64_t steps) {
  float32x4_t sums[chains];
  for (float32x4_t& sum : sums) sum = vdupq_n_f32(0);
  float32x4_t x = vdupq_n_f32(0.5F);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (float32x4_t& sum : sums) {
      asm volatile("" : "+w"(x));
      sum = vfmaq_f32(x, sum, x);
    }
  }
  asm volatile("" : : "m"(sums));
}

// Two halves of a vector multiplied into int16, `Before` such products summed there, then widened.
template <int Before>
void smull_128(std::int64_t steps) {
  constexpr int sums_count = 8;  // beside them as many in int16
  int32x4_t sums[sums_count];
  for (int32x4_t& sum : sums) sum = vdupq_n_s32(0);
  int8x16_t w = vdupq_n_s8(7);
  int8x16_t x = vdupq_n_s8(3);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 8
    for (int32x4_t& sum : sums) {
      asm volatile("" : "+w"(w), "+w"(x));
      int16x8_t narrow = vmull_s8(vget_low_s8(w), vget_low_s8(x));
      narrow = vmlal_high_s8(narrow, w, x);
#pragma GCC unroll 4
      for (int i = 1; i < Before; ++i) {
        asm volatile("" : "+w"(w), "+w"(x));
        narrow = vmlal_s8(narrow, vget_low_s8(w), vget_low_s8(x));
        narrow = vmlal_high_s8(narrow, w, x);
      }
      sum = vpadalq_s16(sum, narrow);
    }
  }
  asm volatile("" : : "m"(sums));
}

template <bool matrix>
void products_128(std::int64_t steps) {
  int32x4_t sums[chains];
  for (int32x4_t& sum : sums) sum = vdupq_n_s32(0);
  const int8x16_t w = vdupq_n_s8(7);
  const int8x16_t x = vdupq_n_s8(3);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 16
    for (int32x4_t& sum : sums) {
      if constexpr (matrix) {
        asm volatile(".arch armv8.2-a+i8mm\n\tsmmla %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
      } else {
        asm volatile(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(w), "w"(x));
      }
    }
  }
  asm volatile("" : : "m"(sums));
}

void read_128(const std::byte* begin, std::int64_t bytes) {
  uint64x2_t sums[4];
  for (uint64x2_t& sum : sums) sum = vdupq_n_u64(0);
  const auto* at = reinterpret_cast<const std::uint64_t*>(begin);
  const auto* end = reinterpret_cast<const std::uint64_t*>(begin + bytes);
  for (; at < end; at += 8)  // 64 bytes
    for (int i = 0; i < 4; ++i) sums[i] = vaddq_u64(sums[i], vld1q_u64(at + 2 * i));
  asm volatile("" : : "m"(sums));
}

Mix int8(std::string_view name, int bits, double products, void (*run)(std::int64_t)) {
  return {.name = name, .products = Products::int8, .weight_bits = bits, .operations_a_step = 2 * products, .run = run};
}

}  // namespace

// Magnitudes: a lane of int16 holds two products of signed 8-bit weights with 8-bit activations, or eight of 5-bit
// ones.
std::vector<Mix> native_mixes(const Host& host) {
  std::vector<Mix> all;
  if (host.has("asimd")) {
    all.push_back({.name = "fmla, 128 bits", .operations_a_step = 2.0 * 4 * chains, .run = fma_128});
    all.push_back(int8("smull + smlal, sadalp, 128 bits", 8, 16 * 8, smull_128<1>));
    all.push_back(int8("4 x smull + smlal in int16, sadalp, 128 bits", 5, 4 * 16 * 8, smull_128<4>));
  }
  if (host.has("asimddp")) all.push_back(int8("sdot, 128 bits", 8, 16 * chains, products_128<false>));
  if (host.has("i8mm")) all.push_back(int8("smmla, 128 bits", 8, 32 * chains, products_128<true>));
  return all;
}

ReadFn native_reader(const Host& host) { return host.has("asimd") ? read_128 : nullptr; }

}  // namespace knapsack
