// The NEON pieces of matmul(): see matmul.h for the sums they make.
// Floats, halves and bfloats for one to three tokens: multiplied as they are loaded, four rows side by side. Everything
// else: a panel of rows is decoded to L1, up to 640 columns at a time, and multiplied with all tokens in tiles of 4
// rows x 3 tokens. Blocks are decoded by FormatInfo::decode: matrices of such formats go through packed.h where speed
// counts.
#include <algorithm>
#include <array>

#include "kernels/arm/arm.h"
#include "kernels/arm/tile_neon.h"

namespace knapsack {
namespace {

// Adds the bias and stores y[row..row+count) of one token.
KNAP_INLINE void finish(const MatmulJob& job, std::int64_t token, std::int64_t row, std::int64_t count,
                        float32x4_t sums) {
  float* y = job.y + token * job.y_stride + row;
  std::array<float, tile_rows> each{};
  vst1q_f32(each.data(), sums);
  for (std::int64_t i = 0; i < count; ++i)
    y[i] =
        job.bias != nullptr ? each[static_cast<std::size_t>(i)] + job.bias[row + i] : each[static_cast<std::size_t>(i)];
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

template <class L, int T>
void dot_range(const MatmulJob& job, std::int64_t begin, std::int64_t end) {
  std::int64_t row = begin;
  for (; row + tile_rows <= end; row += tile_rows) dot_rows<L, tile_rows, T>(job, row);
  for (; row < end; ++row) dot_rows<L, 1, T>(job, row);
}

// `count` columns from p on, and zeros up to a multiple of 8.
template <class L>
void widen(const std::byte* p, std::int64_t count, float* out) {
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8) store8(out + c, L::eight(p + c * L::bytes));
  if (c < count) store8(out + c, last_of<L>(p + c * L::bytes, count - c));
}

using DotFn = void (*)(const MatmulJob& job, std::int64_t begin, std::int64_t end);

struct Format {
  void (*widen)(const std::byte* p, std::int64_t count, float* out) = nullptr;  // null: FormatInfo::decode
  std::array<DotFn, tile_vectors> dot{};                                        // by tokens - 1
};

template <class L>
constexpr Format plain() {
  return {widen<L>, {dot_range<L, 1>, dot_range<L, 2>, dot_range<L, 3>}};
}

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return plain<LoadF32>();
    case DType::F16:
      return plain<LoadF16>();
    case DType::BF16:
      return plain<LoadBF16>();
    default:
      return {};
  }
}

// Columns [col, col + count) of a row; out is filled up with zeros to a multiple of 8.
void decode_piece(const MatmulJob& job, std::int64_t row, std::int64_t col, std::int64_t count, float* out) {
  const FormatInfo& f = format(job.dtype);
  const std::byte* p = job.w + row * row_bytes(job.dtype, job.cols) + col / f.block * f.block_bytes;
  if (const auto fast = format_of(job.dtype).widen; fast != nullptr) return fast(p, count, out);
  f.decode(p, out, count / f.block);
  for (; count % 8 != 0; ++count) out[count] = 0;
}

struct Piece {
  std::int64_t col, count;  // columns of the piece
  bool first, last;         // of the row's pieces
  std::int64_t stride;      // vectors a row of partial sums
};

template <int T>
void tile(const MatmulJob& job, const Piece& piece, const float* w, std::int64_t row, std::int64_t rows,
          std::int64_t token, float* partial) {
  F8 sum[4][T];
  multiply_tile<LoadF32, T, true>(reinterpret_cast<const std::byte*>(w), matmul_stride * std::int64_t{sizeof(float)},
                                  job.x + token * job.x_stride + piece.col, job.x_stride, piece.count,
                                  piece.first ? nullptr : partial, piece.stride, sum);
  if (piece.last) {
    for (int t = 0; t < T; ++t)
      finish(job, token + t, row, rows, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
    return;
  }
  for (int r = 0; r < 4; ++r)
    for (int t = 0; t < T; ++t) store8(partial + 8 * (r * piece.stride + t), sum[r][t]);
}

constexpr std::array tiles = {tile<1>, tile<2>, tile<3>};

// Rows [row, row + rows) of one panel for tokens [begin, end).
void multiply_panel(const MatmulJob& job, std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t end,
                    float* panel, float* partial) {
  const std::int64_t cut = job.cols <= matmul_depth ? job.cols : matmul_cut;
  for (std::int64_t col = 0; col < job.cols; col += cut) {
    const Piece piece{.col = col,
                      .count = std::min(cut, job.cols - col),
                      .first = col == 0,
                      .last = col + cut >= job.cols,
                      .stride = end - begin};
    for (std::int64_t r = 0; r < rows; ++r) decode_piece(job, row + r, col, piece.count, panel + r * matmul_stride);
    for (std::int64_t token = begin; token < end; token += tile_vectors) {
      const auto width = static_cast<std::size_t>(std::min(tile_vectors, end - token));
      for (std::int64_t r = 0; r < rows; r += tile_rows)
        tiles[width - 1](job, piece, panel + r * matmul_stride, row + r, std::min(tile_rows, rows - r), token,
                         partial + 8 * (r * piece.stride + token - begin));
    }
  }
}

void neon_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  if (job.tokens <= tile_vectors) {
    const DotFn dot = format_of(job.dtype).dot[static_cast<std::size_t>(job.tokens - 1)];
    if (dot != nullptr) return dot(job, begin, end);
  }
  float* panel = scratch.data();
  float* partial = panel + matmul_panel * matmul_stride;
  // Rows that the last tile lacks are multiplied too, and not stored; they must only be defined.
  if (end % tile_rows != 0) std::fill_n(panel, matmul_panel * matmul_stride, 0.0F);
  for (std::int64_t token = 0; token < job.tokens; token += matmul_tokens) {
    const std::int64_t last = std::min(token + matmul_tokens, job.tokens);
    for (std::int64_t row = begin; row < end; row += matmul_panel)
      multiply_panel(job, row, std::min(matmul_panel, end - row), token, last, panel, partial);
  }
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
