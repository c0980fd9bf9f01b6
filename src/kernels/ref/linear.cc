#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/rounded.h"

namespace knapsack::ref {
namespace {

void packed_linear(const OpCall& call, const PackedTable& table) {
  const PackedMatrix& w = *call.in[1].packed;
  const std::int64_t tokens = call.in[0].rows;
  Scratch scratch(call.scratch);
  const PackedInput x = take_rounded(scratch, w, tokens);
  for_rows(call, tokens, [&](std::int64_t row, int) {
    table.round(call.in[0].f32() + row * w.cols, w.cols, w.kind, from_row(x, w, row));
  });
  const PackedJob job{.w = &w,
                      .x = x,
                      .y = call.out[0].f32(),
                      .y_stride = call.out[0].cols,
                      .tokens = tokens,
                      .bias = call.in.size() > 2 ? call.in[2].weight->f32() : nullptr};
  packed_matmul(table, {&job, 1}, *call.pool);
}

}  // namespace

std::size_t linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  if (shape.in[1].packed == nullptr) return matmul_scratch_bytes(shape.in[0].rows, shape.in[0].cols, threads);
  Scratch scratch;
  take_rounded(scratch, *shape.in[1].packed, shape.in[0].rows);
  return scratch.used();
}

void linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed) {
  if (call.in[1].packed != nullptr) return packed_linear(call, packed);
  const Weight& w = *call.in[1].weight;
  const MatmulJob job{.x = call.in[0].f32(),
                      .x_stride = call.in[0].cols,
                      .y = call.out[0].f32(),
                      .y_stride = call.out[0].cols,
                      .tokens = call.in[0].rows,
                      .dtype = w.dtype,
                      .w = w.slab(0),
                      .rows = w.shape[0],
                      .cols = w.shape[1],
                      .bias = call.in.size() > 2 ? call.in[2].weight->f32() : nullptr};
  matmul(table, {&job, 1}, *call.pool, call.scratch);
}

void linear(const OpCall& call) { linear(call, scalar_matmul(), scalar_packed()); }

}  // namespace knapsack::ref
