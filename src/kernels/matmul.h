// Products of float32 activations with encoded weights: the one routine under linear, head_linear and moe.
// Not an op: the ops (ref/linear.cc, ref/head_linear.cc, ref/moe.cc) describe their products as jobs and call matmul()
// with the table of their ISA, so there is one place where weights are decoded and multiplied.
//
// Meaning: a weight is first decoded to float32, exactly as FormatInfo::decode says; activations stay float32.
// A plain product sums in eight lanes, lane i taking columns i, i+8, i+16, ... in order (columns past the end are
// zeros), then ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)), then adds the bias, then the residual. A transposed product sums
// rows in order. AVX2 differs from scalar only in fusing each multiplication with its addition. So an element's bits
// depend neither on how many tokens are computed together nor on the threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/threads.h"
#include "kernels/kernel.h"
#include "kernels/packed.h"
#include "tensor/dtype.h"

namespace knapsack {

// Plain:       y[t, r] = sum over c of x[t, c] * w[r, c] (+ bias[r]) (+ residual[t, r])
//                                                         x: [tokens, cols], y: [tokens, rows]
// Transposed:  y[t, c] = sum over r of x[t, r] * w[r, c]  x: [tokens, rows], y: [tokens, cols]
// w: [rows, cols], encoded, rows of row_bytes(dtype, cols) one after the other (Weight::slab + first row * row_size).
// y overlaps neither x nor residual. Strides are in floats.
struct MatmulJob {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  float* y = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t tokens = 0;
  DType dtype = DType::F32;
  const std::byte* w = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const float* bias = nullptr;      // plain only
  const float* residual = nullptr;  // plain only; its rows lie as far apart as y's
  bool transposed = false;
};

// The per-thread pieces, by ISA.
struct MatmulTable {
  // y[:, begin..end) of a plain job; begin is a multiple of matmul_panel.
  void (*rows)(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch);
  // y[:, begin..end) of a transposed job; both are multiples of the format's block.
  void (*columns)(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch);
};
const MatmulTable& scalar_matmul();

// Rows of a plain job come in panels of this many, decoded once for all tokens.
inline constexpr std::int64_t matmul_panel = 8;
// Weights are decoded in pieces of at most this many columns, so that a panel stays in L1; a row that is longer is cut
// at multiples of matmul_cut (whole blocks of any format).
inline constexpr std::int64_t matmul_depth = 640;
inline constexpr std::int64_t matmul_cut = 512;
// Floats from one row of a decoded panel to the next: no power of two, which would put all rows in the same cache sets.
inline constexpr std::int64_t matmul_stride = matmul_depth + 8;
// Tokens for which one decoding of a panel serves; more are done in turns.
inline constexpr std::int64_t matmul_tokens = 128;

// Scratch of matmul() for any jobs with at most this many tokens and columns (cols of w, transposed or not), on any
// ISA.
std::size_t matmul_scratch_bytes(std::int64_t tokens, std::int64_t cols, int threads);

// All jobs in one parallel region; they are independent of each other. Allocates nothing. scratch: 64-byte aligned,
// matmul_scratch_bytes() of the largest job.
void matmul(const MatmulTable& table, std::span<const MatmulJob> jobs, ThreadPool& pool, std::span<std::byte> scratch);

// act(gate) * up for `count` elements: what gated_act computes (act as there); moe takes it as a parameter.
using GateFn = void (*)(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count);

// The matrix ops over any ISA's pieces; ref/<op>.cc defines them, table.cc and the folder of an architecture bind them.
namespace ref {
void linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed);
// The rows of Kernel for integer products on one input, which is rounded once: Q, K and V, gate and up.
bool linear_joins(const OpCall& first, const OpCall& next);
bool linear_adds(const OpCall& call, const OpCall& add);
void linear_group(const OpGroup& group, const MatmulTable& table, const PackedTable& packed);
void head_linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed);
void moe(const OpCall& call, const MatmulTable& table, const PackedTable& packed, GateFn gate);
}  // namespace ref

}  // namespace knapsack
