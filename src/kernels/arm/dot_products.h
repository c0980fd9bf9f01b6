// Products by sdot: four products of signed bytes a lane, summed in int32. For files that are compiled for dotprod.
#pragma once

#include "kernels/arm/packed_tile.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

struct DotProducts {
  template <int bits, int T, int first, int count>
  static KNAP_INLINE void add(const std::byte* codes, const std::int8_t* q, std::int64_t q_stride,
                              int32x4_t (&sums)[T][2]) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sums[t][0] = sums[t][1] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int four = first; four < first + count; four += 4) {
      int8x16_t x[T];  // columns 4 * four to 4 * four + 15
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) x[t] = vld1q_s8(q + t * q_stride + 4 * four);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const int8x16_t w0 = codes_of<bits>(codes, four, h);
        const int8x16_t w1 = codes_of<bits>(codes, four + 1, h);
        const int8x16_t w2 = codes_of<bits>(codes, four + 2, h);
        const int8x16_t w3 = codes_of<bits>(codes, four + 3, h);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          int32x4_t sum = vdotq_laneq_s32(sums[t][h], w0, x[t], 0);
          sum = vdotq_laneq_s32(sum, w1, x[t], 1);
          sum = vdotq_laneq_s32(sum, w2, x[t], 2);
          sums[t][h] = vdotq_laneq_s32(sum, w3, x[t], 3);
        }
      }
    }
  }
};

}  // namespace
}  // namespace knapsack
