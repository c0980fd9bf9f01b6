// The inner product of four rows with one to three vectors: 24 of the 32 registers hold sums. Under prefill's matmul
// (rows: weights) and attention (rows: keys). Included by *_neon.cc files only.
#pragma once

#include "kernels/arm/neon.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

inline constexpr std::int64_t tile_rows = 4;
inline constexpr std::int64_t tile_vectors = 3;

// sum[r][t] = the eight floats at before + 8 * (r * before_stride + t) (or 0 without it) + products of w's row r and
// vector t over `count` columns, lane by lane. w_stride is in bytes. With `tail`, count is any number: w is padded to a
// multiple of 8 and x is not read past `count`; else it is a multiple of 8.
template <class L, int T, bool tail>
KNAP_INLINE void multiply_tile(const std::byte* w, std::int64_t w_stride, const float* x, std::int64_t x_stride,
                               std::int64_t count, const float* before, std::int64_t before_stride, F8 (&sum)[4][T]) {
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) sum[r][t] = before != nullptr ? load8(before + 8 * (r * before_stride + t)) : all8(0);
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8, w += 8 * L::bytes) {
    F8 vector[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) vector[t] = load8(x + t * x_stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const F8 row = L::eight(w + r * w_stride);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[r][t] = fused(row, vector[t], sum[r][t]);
    }
  }
  if constexpr (!tail) return;
  if (c == count) return;
  for (int t = 0; t < T; ++t) {
    const F8 vector = load_first(x + t * x_stride + c, count - c);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sum[r][t] = fused(L::eight(w + r * w_stride), vector, sum[r][t]);
  }
}

// scores[t * stride + r] = the lane sum of row r and vector t.
template <int T>
KNAP_INLINE void store_lane_sums(const F8 (&sum)[4][T], std::int64_t stride, float* scores) {
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) vst1q_f32(scores + t * stride, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
}

}  // namespace
}  // namespace knapsack
