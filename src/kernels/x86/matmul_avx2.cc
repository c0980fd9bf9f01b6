// The AVX2 pieces of matmul(): see matmul.h for the sums they make.
// One to three tokens: weights are decoded in registers and multiplied at once, four rows side by side. More tokens: a
// panel of rows is decoded to L1, up to 640 columns at a time, and multiplied with all tokens in tiles of 4 rows x 3
// tokens.
#include <algorithm>
#include <array>

#include "kernels/matmul_panels.h"
#include "kernels/x86/decode_avx2.h"
#include "kernels/x86/tile_avx2.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

constexpr std::int64_t tile_tokens = tile_vectors;

// Fetches what the next four rows (or, of long rows, the next few blocks) will need while these are computed: four
// short rows side by side are streams too short for the hardware to foresee.
template <int bytes>
KNAP_INLINE void fetch_ahead(const std::byte* p, std::int64_t ahead) {
#pragma GCC unroll 4
  for (int at = 0; at < bytes; at += 64) __builtin_prefetch(p + ahead + at);
}

// Products of rows [row, row + R) with T tokens from `token` on, for formats in blocks. R is 4, or 1 at the end.
template <class D, int R, int T>
KNAP_INLINE void dot_blocks(const MatmulJob& job, std::int64_t row, std::int64_t token) {
  const std::int64_t stride = job.cols / D::block * D::bytes;
  const std::byte* p = job.w + row * stride;
  const float* x = job.x + token * job.x_stride;
  __m256 sum[4][T];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) sum[r][t] = _mm256_setzero_ps();
  const std::int64_t ahead = 4 * stride <= 8192 ? 4 * stride : 1024;
  for (std::int64_t c = 0; c < job.cols; c += D::block, p += D::bytes) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) fetch_ahead<D::bytes>(p + r * stride, ahead);
    typename D::State state[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) state[r] = D::open(p + r * stride);
#pragma GCC unroll 8
    for (int g = 0; g < D::block / 32; ++g) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        __m256 w[4];
        D::group(p + r * stride, state[r], g, w);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
#pragma GCC unroll 3
          for (int t = 0; t < T; ++t)
            sum[r][t] = _mm256_fmadd_ps(w[i], _mm256_loadu_ps(x + t * job.x_stride + c + 32 * g + 8 * i), sum[r][t]);
      }
    }
  }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) finish(job, token + t, row, R, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
}

// The same for formats without blocks, whose rows may end anywhere.
template <class L, int R, int T>
KNAP_INLINE void dot_plain(const MatmulJob& job, std::int64_t row, std::int64_t token) {
  const std::int64_t stride = job.cols * L::bytes;
  const std::byte* p = job.w + row * stride;
  const float* x = job.x + token * job.x_stride;
  __m256 sum[4][T];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) sum[r][t] = _mm256_setzero_ps();
  std::int64_t c = 0;
  for (; c + 8 <= job.cols; c += 8) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m256 w = L::eight(p + r * stride + c * L::bytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[r][t] = _mm256_fmadd_ps(w, _mm256_loadu_ps(x + t * job.x_stride + c), sum[r][t]);
    }
  }
  if (const std::int64_t left = job.cols - c; left > 0) {
    const __m256i mask = first_lanes(left);
    for (int r = 0; r < R; ++r) {
      std::array<std::byte, 8 * L::bytes> last{};
      std::copy_n(p + r * stride + c * L::bytes, left * L::bytes, last.data());
      const __m256 w = L::eight(last.data());
      for (int t = 0; t < T; ++t)
        sum[r][t] = _mm256_fmadd_ps(w, _mm256_maskload_ps(x + t * job.x_stride + c, mask), sum[r][t]);
    }
  }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) finish(job, token + t, row, R, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
}

template <class D, int R, int T>
KNAP_INLINE void dot_any(const MatmulJob& job, std::int64_t row, std::int64_t token) {
  if constexpr (requires { D::block; }) {
    dot_blocks<D, R, T>(job, row, token);
  } else {
    dot_plain<D, R, T>(job, row, token);
  }
}

template <class D, int T>
void dot_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  std::int64_t row = begin;
  for (; row + tile_rows <= end; row += tile_rows) dot_any<D, tile_rows, T>(job, row, 0);
  for (; row < end; ++row) dot_any<D, 1, T>(job, row, 0);
}

// `count` weights from p on, whole blocks or the end of a row, and zeros up to a multiple of 8.
template <class D>
void decode(const std::byte* p, std::int64_t count, float* out) {
  if constexpr (requires { D::block; }) {
    for (; count > 0; count -= D::block, p += D::bytes, out += D::block) {
      const typename D::State state = D::open(p);
#pragma GCC unroll 8
      for (int g = 0; g < D::block / 32; ++g) {
        __m256 w[4];
        D::group(p, state, g, w);
        for (int i = 0; i < 4; ++i) _mm256_storeu_ps(out + 32 * g + 8 * i, w[i]);
      }
    }
  } else {
    std::int64_t c = 0;
    for (; c + 8 <= count; c += 8) _mm256_storeu_ps(out + c, D::eight(p + c * D::bytes));
    if (c == count) return;
    std::array<std::byte, 8 * D::bytes> last{};
    std::copy_n(p + c * D::bytes, (count - c) * D::bytes, last.data());
    _mm256_storeu_ps(out + c, D::eight(last.data()));
  }
}

using DecodeFn = void (*)(const std::byte* p, std::int64_t count, float* out);
using DotFn = void (*)(const MatmulJob& job, std::int64_t begin, std::int64_t end);

struct Format {
  DecodeFn decode = nullptr;             // null: FormatInfo::decode
  std::array<DotFn, tile_tokens> dot{};  // by tokens - 1; null: through a decoded panel
};

template <class D>
constexpr Format vectorized() {
  return {decode<D>, {dot_rows<D, 1>, dot_rows<D, 2>, dot_rows<D, 3>}};
}

constexpr Format format_of(DType dtype) {
  switch (dtype) {
#define KNAP_VECTOR_FORMAT(id, decoder) \
  case DType::id:                       \
    return vectorized<decoder>();
#include "kernels/vector_formats.inc"
#undef KNAP_VECTOR_FORMAT
    default:
      return {};
  }
}

constexpr auto format_table = std::to_array<Format>({
#define KNAP_FORMAT(id, ggml, block, bytes) format_of(DType::id),
#include "tensor/formats.inc"
#undef KNAP_FORMAT
});

// Rows [r, r + 4) of the panel with T tokens from `token` on; those past the panel's last are not stored.
template <int T, bool tail>
void tile(const MatmulJob& job, const Piece& piece, std::int64_t r, std::int64_t token) {
  const std::int64_t stride = piece.tokens();
  float* partial = piece.partial + 8 * (r * stride + token - piece.token);
  __m256 sum[4][T];
  multiply_tile<LoadF32, T, tail>(reinterpret_cast<const std::byte*>(piece.panel + r * matmul_stride),
                                  matmul_stride * std::int64_t{sizeof(float)}, job.x + token * job.x_stride + piece.col,
                                  job.x_stride, piece.count, piece.first ? nullptr : partial, stride, sum);
  if (piece.last) {
    const std::int64_t rows = std::min(tile_rows, piece.rows - r);
    for (int t = 0; t < T; ++t)
      finish(job, token + t, piece.row + r, rows, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
    return;
  }
  for (int i = 0; i < 4; ++i)
    for (int t = 0; t < T; ++t) _mm256_store_ps(partial + 8 * (i * stride + t), sum[i][t]);
}

using TileFn = decltype(&tile<1, false>);
constexpr std::array<TileFn, tile_tokens> tiles = {tile<1, false>, tile<2, false>, tile<3, false>};
constexpr std::array<TileFn, tile_tokens> tiles_with_tail = {tile<1, true>, tile<2, true>, tile<3, true>};

void avx2_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  if (job.tokens <= tile_tokens) {
    const DotFn dot = format_table[static_cast<std::size_t>(job.dtype)].dot[static_cast<std::size_t>(job.tokens - 1)];
    if (dot != nullptr) return dot(job, begin, end);
  }
  const auto decode = [&](std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
    avx2_decode(job, row, col, count, out);
  };
  multiply_panels(job, begin, end, scratch, decode, [&](const Piece& piece) {
    const auto& some = piece.count % 8 == 0 ? tiles : tiles_with_tail;
    for (std::int64_t token = piece.token; token < piece.end; token += tile_tokens) {
      const TileFn multiply = some[static_cast<std::size_t>(std::min(tile_tokens, piece.end - token) - 1)];
      for (std::int64_t r = 0; r < piece.rows; r += tile_rows) multiply(job, piece, r, token);
    }
  });
}

// y += sum over R rows of x[r] * w[r], for one token; w rows are matmul_stride apart.
template <int R>
KNAP_INLINE void add_rows(const float* x, const float* w, std::int64_t count, float* y) {
  __m256 factor[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) factor[r] = _mm256_broadcast_ss(x + r);
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8) {
    __m256 sum = _mm256_loadu_ps(y + c);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum = _mm256_fmadd_ps(factor[r], _mm256_load_ps(w + r * matmul_stride + c), sum);
    _mm256_storeu_ps(y + c, sum);
  }
  if (c == count) return;
  const __m256i mask = first_lanes(count - c);
  __m256 sum = _mm256_maskload_ps(y + c, mask);
  for (int r = 0; r < R; ++r) sum = _mm256_fmadd_ps(factor[r], _mm256_load_ps(w + r * matmul_stride + c), sum);
  _mm256_maskstore_ps(y + c, mask, sum);
}

void avx2_columns(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  float* panel = scratch.data();
  for (std::int64_t col = begin; col < end; col += matmul_cut) {
    const std::int64_t count = std::min(matmul_cut, end - col);
    for (std::int64_t t = 0; t < job.tokens; ++t) std::fill_n(job.y + t * job.y_stride + col, count, 0.0F);
    for (std::int64_t row = 0; row < job.rows; row += matmul_panel) {
      const std::int64_t rows = std::min(matmul_panel, job.rows - row);
      for (std::int64_t r = 0; r < rows; ++r) avx2_decode(job, row + r, col, count, panel + r * matmul_stride);
      for (std::int64_t t = 0; t < job.tokens; ++t) {
        const float* x = job.x + t * job.x_stride + row;
        float* y = job.y + t * job.y_stride + col;
        std::int64_t r = 0;
        for (; r + 4 <= rows; r += 4) add_rows<4>(x + r, panel + r * matmul_stride, count, y);
        for (; r < rows; ++r) add_rows<1>(x + r, panel + r * matmul_stride, count, y);
      }
    }
  }
}

}  // namespace

void avx2_decode(const MatmulJob& job, std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
  const FormatInfo& f = format(job.dtype);
  const std::byte* p = job.w + row * row_bytes(job.dtype, job.cols) + col / f.block * f.block_bytes;
  if (const DecodeFn fast = format_table[static_cast<std::size_t>(job.dtype)].decode; fast != nullptr) {
    fast(p, count, out);
    return;
  }
  f.decode(p, out, count / f.block);
  for (; count % 8 != 0; ++count) out[count] = 0;
}

const MatmulTable& avx2_matmul() {
  static constexpr MatmulTable table{.rows = avx2_rows, .columns = avx2_columns};
  return table;
}

}  // namespace knapsack
