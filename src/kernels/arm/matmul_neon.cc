// The NEON pieces of matmul(): see matmul.h for the sums they make.
// One token (of formats without blocks up to three): weights are decoded in registers and multiplied at once, four rows
// side by side. More tokens: a panel of rows is decoded to L1, up to 640 columns at a time, and multiplied with all
// tokens in tiles of 4 rows x 3 tokens.
#include <algorithm>
#include <array>

#include "kernels/arm/arm.h"
#include "kernels/arm/decode_neon.h"
#include "kernels/arm/tile_neon.h"
#include "kernels/matmul_panels.h"

namespace knapsack {
namespace {

// Adds the bias and the residual and stores y[row..row+count) of one token.
KNAP_INLINE void finish(const MatmulJob& job, std::int64_t token, std::int64_t row, std::int64_t count,
                        float32x4_t sums) {
  const std::int64_t at = token * job.y_stride + row;
  std::array<float, tile_rows> each{};
  vst1q_f32(each.data(), sums);
  for (std::int64_t i = 0; i < count; ++i) {
    float y = each[static_cast<std::size_t>(i)];
    if (job.bias != nullptr) y += job.bias[row + i];
    if (job.residual != nullptr) y += job.residual[at + i];
    job.y[at + i] = y;
  }
}

// Eight columns of which only `count` exist.
template <class L>
KNAP_INLINE F8 last_of(const std::byte* p, std::int64_t count) {
  std::array<std::byte, 8 * L::bytes> some{};
  std::copy_n(p, count * L::bytes, some.data());
  return L::eight(some.data());
}

// Rows [row, row + R) with T tokens, in the encoding they have. R is 4, or 1 at the end.
template <class L, int R, int T>
KNAP_INLINE void dot_rows(const MatmulJob& job, std::int64_t row) {
  const std::int64_t stride = job.cols * L::bytes;
  const std::byte* p = job.w + row * stride;
  F8 sum[4][T];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r)
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) sum[r][t] = all8(0);
  std::int64_t c = 0;
  for (; c + 8 <= job.cols; c += 8) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const F8 w = L::eight(p + r * stride + c * L::bytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[r][t] = fused(w, load8(job.x + t * job.x_stride + c), sum[r][t]);
    }
  }
  if (const std::int64_t left = job.cols - c; left > 0)
    for (int r = 0; r < R; ++r) {
      const F8 w = last_of<L>(p + r * stride + c * L::bytes, left);
      for (int t = 0; t < T; ++t) sum[r][t] = fused(w, load_first(job.x + t * job.x_stride + c, left), sum[r][t]);
    }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t) finish(job, t, row, R, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
}

// The same for formats in blocks and one token: of more, their sums and the weights would not fit the registers.
template <class D, int R>
KNAP_INLINE void dot_blocks(const MatmulJob& job, std::int64_t row) {
  const std::int64_t stride = job.cols / D::block * D::bytes;
  const std::byte* p = job.w + row * stride;
  F8 sum[4] = {all8(0), all8(0), all8(0), all8(0)};
  for (std::int64_t c = 0; c < job.cols; c += D::block, p += D::bytes) {
    typename D::State state[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) state[r] = D::open(p + r * stride);
    for (int g = 0; g < D::block / 32; ++g) {
      const float* x = job.x + c + std::ptrdiff_t{32} * g;
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        F8 w[4];
        D::group(p + r * stride, state[r], g, w);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[r] = fused(w[i], load8(x + 8 * i), sum[r]);
      }
    }
  }
  finish(job, 0, row, R, lane_sums(sum[0], sum[1], sum[2], sum[3]));
}

template <class D, int R, int T>
KNAP_INLINE void dot_any(const MatmulJob& job, std::int64_t row) {
  if constexpr (requires { D::block; }) {
    dot_blocks<D, R>(job, row);
  } else {
    dot_rows<D, R, T>(job, row);
  }
}

template <class D, int T>
void dot_range(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  std::int64_t row = begin;
  for (; row + tile_rows <= end; row += tile_rows) dot_any<D, tile_rows, T>(job, row);
  for (; row < end; ++row) dot_any<D, 1, T>(job, row);
}

// `count` weights from p on, whole blocks or the end of a row, and zeros up to a multiple of 8.
template <class D>
void decode(const std::byte* p, std::int64_t count, float* out) {
  if constexpr (requires { D::block; }) {
    for (; count > 0; count -= D::block, p += D::bytes, out += D::block) {
      const typename D::State state = D::open(p);
      for (int g = 0; g < D::block / 32; ++g) {
        F8 w[4];
        D::group(p, state, g, w);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) store8(out + 32 * g + 8 * i, w[i]);
      }
    }
  } else {
    std::int64_t c = 0;
    for (; c + 8 <= count; c += 8) store8(out + c, D::eight(p + c * D::bytes));
    if (c < count) store8(out + c, last_of<D>(p + c * D::bytes, count - c));
  }
}

using DecodeFn = void (*)(const std::byte* p, std::int64_t count, float* out);
using DotFn = void (*)(const MatmulJob& job, std::int64_t begin, std::int64_t end);

struct Format {
  DecodeFn decode = nullptr;              // null: FormatInfo::decode
  std::array<DotFn, tile_vectors> dot{};  // by tokens - 1; null: through a decoded panel
};

template <class D>
constexpr Format vectorized() {
  if constexpr (requires { D::block; }) return {decode<D>, {dot_range<D, 1>}};
  return {decode<D>, {dot_range<D, 1>, dot_range<D, 2>, dot_range<D, 3>}};
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

// Columns [col, col + count) of a row; out is filled up with zeros to a multiple of 8.
void decode_piece(const MatmulJob& job, std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
  const FormatInfo& f = format(job.dtype);
  const std::byte* p = job.w + row * row_bytes(job.dtype, job.cols) + col / f.block * f.block_bytes;
  if (const DecodeFn fast = format_table[static_cast<std::size_t>(job.dtype)].decode; fast != nullptr)
    return fast(p, count, out);
  f.decode(p, out, count / f.block);
  for (; count % 8 != 0; ++count) out[count] = 0;
}

// Rows [r, r + 4) of the panel with T tokens from `token` on; those past the panel's last are not stored.
template <int T>
void tile(const MatmulJob& job, const Piece& piece, std::int64_t r, std::int64_t token) {
  const std::int64_t stride = piece.tokens();
  float* partial = piece.partial + 8 * (r * stride + token - piece.token);
  F8 sum[4][T];
  multiply_tile<LoadF32, T, true>(reinterpret_cast<const std::byte*>(piece.panel + r * matmul_stride),
                                  matmul_stride * std::int64_t{sizeof(float)}, job.x + token * job.x_stride + piece.col,
                                  job.x_stride, piece.count, piece.first ? nullptr : partial, stride, sum);
  if (piece.last) {
    const std::int64_t rows = std::min(tile_rows, piece.rows - r);
    for (int t = 0; t < T; ++t)
      finish(job, token + t, piece.row + r, rows, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
    return;
  }
  for (int i = 0; i < 4; ++i)
    for (int t = 0; t < T; ++t) store8(partial + 8 * (i * stride + t), sum[i][t]);
}

constexpr std::array tiles = {tile<1>, tile<2>, tile<3>};

void neon_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  if (job.tokens <= tile_vectors) {
    const DotFn dot = format_table[static_cast<std::size_t>(job.dtype)].dot[static_cast<std::size_t>(job.tokens - 1)];
    if (dot != nullptr) return dot(job, begin, end);
  }
  const auto decode = [&](std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
    decode_piece(job, row, col, count, out);
  };
  multiply_panels(job, begin, end, scratch, decode, [&](const Piece& piece) {
    for (std::int64_t token = piece.token; token < piece.end; token += tile_vectors) {
      const auto multiply = tiles[static_cast<std::size_t>(std::min(tile_vectors, piece.end - token) - 1)];
      for (std::int64_t r = 0; r < piece.rows; r += tile_rows) multiply(job, piece, r, token);
    }
  });
}

// y += sum over R rows of x[r] * w[r], for one token; w rows are matmul_stride apart and filled up to eights.
template <int R>
KNAP_INLINE void add_rows(const float* x, const float* w, std::int64_t count, float* y) {
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8) {
    F8 sum = load8(y + c);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum = fused(all8(x[r]), load8(w + r * matmul_stride + c), sum);
    store8(y + c, sum);
  }
  if (c == count) return;
  F8 sum = load_first(y + c, count - c);
  for (int r = 0; r < R; ++r) sum = fused(all8(x[r]), load8(w + r * matmul_stride + c), sum);
  store_first(y + c, sum, count - c);
}

void neon_columns(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  float* panel = scratch.data();
  for (std::int64_t col = begin; col < end; col += matmul_cut) {
    const std::int64_t count = std::min(matmul_cut, end - col);
    for (std::int64_t t = 0; t < job.tokens; ++t) std::fill_n(job.y + t * job.y_stride + col, count, 0.0F);
    for (std::int64_t row = 0; row < job.rows; row += matmul_panel) {
      const std::int64_t rows = std::min(matmul_panel, job.rows - row);
      for (std::int64_t r = 0; r < rows; ++r) decode_piece(job, row + r, col, count, panel + r * matmul_stride);
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

const MatmulTable& neon_matmul() {
  static constexpr MatmulTable table{.rows = neon_rows, .columns = neon_columns};
  return table;
}

}  // namespace knapsack
