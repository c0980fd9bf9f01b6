// Integer products with what every 64-bit ARM has: smull and smlal multiply signed bytes into int16, sadalp widens
// pairs of them to int32. How many products a lane of int16 can hold before that: 127 * (2^bits - 1) each, so 17 of 4
// bits, 8 of 5, 4 of 6; signed bytes, 127 * 128 each, 2.
#include "kernels/arm/arm.h"
#include "kernels/arm/packed_tile.h"

namespace knapsack {
namespace {

struct NeonProducts {
  template <int bits, int T, int first, int count>
  static KNAP_INLINE void add(const std::byte* codes, const std::int8_t* q, std::int64_t q_stride,
                              int32x4_t (&sums)[T][2]) {
    constexpr int fit = bits <= 5 ? 8 : bits == 6 ? 4 : 2;
    constexpr int run = fit < count ? fit : count;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      int32x4_t wide[T][2];  // two sums a row, of rows 4h, 4h + 1 and of 4h + 2, 4h + 3
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) wide[t][0] = wide[t][1] = vdupq_n_s32(0);
#pragma GCC unroll 4
      for (int at = first; at < first + count; at += run) {
        int16x8_t narrow[T][2];
#pragma GCC unroll 8
        for (int v = at; v < at + run; ++v) {
          const int8x16_t w = codes_of<bits>(codes, v, h);
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) {
            // Columns 4v..4v+3 of the token, in both rows' places.
            std::int32_t four = 0;
            std::memcpy(&four, q + t * q_stride + 4 * v, sizeof(four));
            const int8x8_t x = vreinterpret_s8_s32(vdup_n_s32(four));
            if (v == at) {
              narrow[t][0] = vmull_s8(vget_low_s8(w), x);
              narrow[t][1] = vmull_s8(vget_high_s8(w), x);
            } else {
              narrow[t][0] = vmlal_s8(narrow[t][0], vget_low_s8(w), x);
              narrow[t][1] = vmlal_s8(narrow[t][1], vget_high_s8(w), x);
            }
          }
        }
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) {
          wide[t][0] = vpadalq_s16(wide[t][0], narrow[t][0]);
          wide[t][1] = vpadalq_s16(wide[t][1], narrow[t][1]);
        }
      }
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) sums[t][h] = vpaddq_s32(wide[t][0], wide[t][1]);
    }
  }
};

}  // namespace

const PackedTable& neon_packed() { return packed_table_of<NeonProducts, 4>(); }

}  // namespace knapsack
