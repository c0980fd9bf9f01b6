// The frame of plain products of floats on every fast instruction set: rows come in panels, columns in pieces that are
// decoded once for many tokens (matmul.h). How they are decoded and multiplied is the set's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/matmul.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): each file compiles it for its own instruction set

// Some columns of a panel, and the tokens they are multiplied with.
struct Piece {
  std::int64_t col, count;  // columns
  bool first, last;         // of the row's pieces
  std::int64_t row, rows;   // of the job; matmul_panel of them but in the last panel
  std::int64_t token, end;  // tokens [token, end)
  const float* panel;       // [matmul_panel, matmul_stride] decoded weights, zeros from `count` up to a multiple of 8
  float* partial;           // sums of the pieces before it, and of it where it is not the last: eight a row and token
  [[nodiscard]] std::int64_t tokens() const { return end - token; }
};

// y[:, begin..end) of a job: decode(row, col, count, out) and then multiply(piece), piece by piece.
template <class Decode, class Multiply>
void multiply_panels(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch,
                     const Decode& decode, const Multiply& multiply) {
  float* panel = scratch.data();
  float* partial = panel + matmul_panel * matmul_stride;
  const std::int64_t cut = job.cols <= matmul_depth ? job.cols : matmul_cut;
  // Rows that the last panel lacks are multiplied too, and not stored; they must only be defined.
  if (end % matmul_panel != 0) std::fill_n(panel, matmul_panel * matmul_stride, 0.0F);
  for (std::int64_t token = 0; token < job.tokens; token += matmul_tokens)
    for (std::int64_t row = begin; row < end; row += matmul_panel)
      for (std::int64_t col = 0; col < job.cols; col += cut) {
        const Piece piece{.col = col,
                          .count = std::min(cut, job.cols - col),
                          .first = col == 0,
                          .last = col + cut >= job.cols,
                          .row = row,
                          .rows = std::min(matmul_panel, end - row),
                          .token = token,
                          .end = std::min(token + matmul_tokens, job.tokens),
                          .panel = panel,
                          .partial = partial};
        for (std::int64_t r = 0; r < piece.rows; ++r) decode(row + r, col, piece.count, panel + r * matmul_stride);
        multiply(piece);
      }
}

}  // namespace
}  // namespace knapsack
