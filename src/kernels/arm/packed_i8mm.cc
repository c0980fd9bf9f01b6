// Integer products by smmla (Armv8.6's i8mm): two rows by eight columns times eight columns by two tokens, four sums of
// eight products in one instruction, twice what sdot does. A single token, for which half of it would be wasted, takes
// sdot.
#include "kernels/arm/arm.h"
#include "kernels/arm/dot_products.h"

namespace knapsack {
namespace {

struct MatrixProducts {
  template <int bits, int T, int first, int count>
  static KNAP_INLINE void add(const std::byte* codes, const std::int8_t* q, std::int64_t q_stride,
                              int32x4_t (&sums)[T][2]) {
    if constexpr (T == 1) {
      DotProducts::add<bits, T, first, count>(codes, q, q_stride, sums);
    } else {
      // square[pair][k]: rows 2k and 2k + 1 with tokens 2 pair and 2 pair + 1, row by row.
      int32x4_t square[T / 2][4];
#pragma GCC unroll 4
      for (int pair = 0; pair < T / 2; ++pair)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) square[pair][k] = vdupq_n_s32(0);
#pragma GCC unroll 4
      for (int v = first; v < first + count; v += 2) {
        // Two vectors of four columns become rows of eight.
        int8x16_t w[4];
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          const int32x4_t left = vreinterpretq_s32_s8(codes_of<bits>(codes, v, h));
          const int32x4_t right = vreinterpretq_s32_s8(codes_of<bits>(codes, v + 1, h));
          w[2 * h] = vreinterpretq_s8_s32(vzip1q_s32(left, right));
          w[2 * h + 1] = vreinterpretq_s8_s32(vzip2q_s32(left, right));
        }
#pragma GCC unroll 4
        for (int pair = 0; pair < T / 2; ++pair) {
          const std::int8_t* two = q + 2 * pair * q_stride + 4 * v;
          const int8x16_t x = vcombine_s8(vld1_s8(two), vld1_s8(two + q_stride));
#pragma GCC unroll 4
          for (int k = 0; k < 4; ++k) square[pair][k] = vmmlaq_s32(square[pair][k], w[k], x);
        }
      }
#pragma GCC unroll 4
      for (int pair = 0; pair < T / 2; ++pair)
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
          sums[2 * pair][h] = vuzp1q_s32(square[pair][2 * h], square[pair][2 * h + 1]);
          sums[2 * pair + 1][h] = vuzp2q_s32(square[pair][2 * h], square[pair][2 * h + 1]);
        }
    }
  }
};

}  // namespace

const PackedTable& i8mm_packed() { return packed_table_of<MatrixProducts, 4>(); }

}  // namespace knapsack
