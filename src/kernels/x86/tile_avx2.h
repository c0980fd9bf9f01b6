// The inner product of four rows with one to three vectors: twelve sums, three vectors and one row in the sixteen
// registers. Under prefill's matmul (rows: weights) and attention (rows: keys). Included by *_avx2.cc and wider
// files only.
#pragma once

#include "kernels/matmul.h"
#include "kernels/x86/avx2.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

inline constexpr std::int64_t tile_rows = 4;
inline constexpr std::int64_t tile_vectors = 3;

// sum[r][t] = the eight floats at before + 8 * (r * before_stride + t) (or 0 without it) + products of w's row r and
// vector t over `count` columns, lane by lane. w_stride is in bytes. With `tail`, count is any number: w is padded to a
// multiple of 8 and x is not read past `count`; else it is a multiple of 8.
template <class L, int T, bool tail>
KNAP_INLINE void multiply_tile(const std::byte* w, std::int64_t w_stride, const float* x, std::int64_t x_stride,
                               std::int64_t count, const float* before, std::int64_t before_stride,
                               __m256 (&sum)[4][T]) {
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t)
      sum[r][t] = before != nullptr ? _mm256_load_ps(before + 8 * (r * before_stride + t)) : _mm256_setzero_ps();
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8, w += 8 * L::bytes) {
    __m256 vector[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) vector[t] = _mm256_loadu_ps(x + t * x_stride + c);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m256 row = L::eight(w + r * w_stride);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[r][t] = _mm256_fmadd_ps(row, vector[t], sum[r][t]);
    }
  }
  if constexpr (!tail) return;
  if (c == count) return;
  const __m256i mask = first_lanes(count - c);
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t)
      sum[r][t] =
          _mm256_fmadd_ps(L::eight(w + r * w_stride), _mm256_maskload_ps(x + t * x_stride + c, mask), sum[r][t]);
}

// scores[t * stride + r] = the lane sum of row r and vector t.
template <int T>
KNAP_INLINE void store_lane_sums(const __m256 (&sum)[4][T], std::int64_t stride, float* scores) {
  if constexpr (T > 1) {
    const __m256 two =
        lane_sums({sum[0][0], sum[1][0], sum[2][0], sum[3][0]}, {sum[0][1], sum[1][1], sum[2][1], sum[3][1]});
    _mm_store_ps(scores, _mm256_castps256_ps128(two));
    _mm_store_ps(scores + stride, _mm256_extractf128_ps(two, 1));
  }
  if constexpr (T != 2)
    _mm_store_ps(scores + (T - 1) * stride, lane_sums(sum[0][T - 1], sum[1][T - 1], sum[2][T - 1], sum[3][T - 1]));
}

// Adds the bias and the residual and stores y[row..row+count) of one token.
KNAP_INLINE void finish(const MatmulJob& job, std::int64_t token, std::int64_t row, std::int64_t count, __m128 sums) {
  const std::int64_t at = token * job.y_stride + row;
  if (count == tile_rows) {
    if (job.bias != nullptr) sums = _mm_add_ps(sums, _mm_loadu_ps(job.bias + row));
    if (job.residual != nullptr) sums = _mm_add_ps(sums, _mm_loadu_ps(job.residual + at));
    _mm_storeu_ps(job.y + at, sums);
    return;
  }
  alignas(16) float each[tile_rows];
  _mm_store_ps(each, sums);
  for (std::int64_t i = 0; i < count; ++i) {
    if (job.bias != nullptr) each[i] += job.bias[row + i];
    if (job.residual != nullptr) each[i] += job.residual[at + i];
    job.y[at + i] = each[i];
  }
}

}  // namespace
}  // namespace knapsack
