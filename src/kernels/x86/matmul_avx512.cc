// The AVX-512 pieces of matmul(), with AVX2's bits: a vector holds the eight lanes of two rows. More than three tokens
// are multiplied here, in tiles of 8 rows x 6 tokens; fewer wait for memory, and so do transposed products: they are
// AVX2's.
#include <algorithm>
#include <array>

#include "kernels/matmul_panels.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

constexpr int pairs = matmul_panel / 2;  // of rows
constexpr std::int64_t most_tokens = 6;  // 24 sums, and the tokens' columns beside them

// Rows 2k and 2k + 1 of a decoded panel, from column c on.
KNAP_INLINE __m512 two_rows(const float* panel, int k, std::int64_t c) {
  const float* row = panel + 2 * k * matmul_stride + c;
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_load_ps(row)), _mm256_load_ps(row + matmul_stride), 1);
}

template <int T>
KNAP_INLINE void multiply(const float* panel, std::int64_t c, const __m512 (&x)[T], __m512 (&sums)[pairs][T]) {
#pragma GCC unroll 4
  for (int k = 0; k < pairs; ++k) {
    const __m512 w = two_rows(panel, k, c);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) sums[k][t] = _mm512_fmadd_ps(w, x[t], sums[k][t]);
  }
}

// The panel with T tokens from `token` on.
template <int T>
void tile(const MatmulJob& job, const Piece& piece, std::int64_t token) {
  const std::int64_t stride = piece.tokens();
  float* partial = piece.partial + 16 * (token - piece.token);
  __m512 sums[pairs][T];
#pragma GCC unroll 4
  for (int k = 0; k < pairs; ++k)
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t)
      sums[k][t] = piece.first ? _mm512_setzero_ps() : _mm512_loadu_ps(partial + 16 * (k * stride + t));
  const float* from = job.x + token * job.x_stride + piece.col;
  __m512 x[T];
  std::int64_t c = 0;
  for (; c + 8 <= piece.count; c += 8) {
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) x[t] = _mm512_broadcast_f32x8(_mm256_loadu_ps(from + t * job.x_stride + c));
    multiply<T>(piece.panel, c, x, sums);
  }
  if (c < piece.count) {
    const __m256i mask = first_lanes(piece.count - c);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) x[t] = _mm512_broadcast_f32x8(_mm256_maskload_ps(from + t * job.x_stride + c, mask));
    multiply<T>(piece.panel, c, x, sums);
  }
  if (!piece.last) {
#pragma GCC unroll 4
    for (int k = 0; k < pairs; ++k)
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) _mm512_storeu_ps(partial + 16 * (k * stride + t), sums[k][t]);
    return;
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const std::int64_t at = tile_rows * half;
    if (at >= piece.rows) break;
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m512 a = sums[2 * half][t];
      const __m512 b = sums[2 * half + 1][t];
      finish(job, token + t, piece.row + at, std::min(tile_rows, piece.rows - at),
             lane_sums(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1), _mm512_castps512_ps256(b),
                       _mm512_extractf32x8_ps(b, 1)));
    }
  }
}

constexpr std::array tiles = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};

void rows(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  if (job.tokens <= tile_vectors) return avx2_matmul().rows(job, begin, end, scratch);
  const auto decode = [&](std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
    avx2_decode(job, row, col, count, out);
  };
  multiply_panels(job, begin, end, scratch, decode, [&](const Piece& piece) {
    for (std::int64_t token = piece.token; token < piece.end; token += most_tokens)
      tiles[static_cast<std::size_t>(std::min(most_tokens, piece.end - token) - 1)](job, piece, token);
  });
}

}  // namespace

const MatmulTable& avx512_matmul() {
  static const MatmulTable table{.rows = rows, .columns = avx2_matmul().columns};
  return table;
}

}  // namespace knapsack
