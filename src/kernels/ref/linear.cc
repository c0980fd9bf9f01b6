#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/scratch.h"

namespace knapsack::ref {
namespace {

PackedInput cut(Scratch& scratch, const PackedMatrix& w, std::int64_t tokens) {
  const std::int64_t blocks = w.cols / packed_block;
  return {.q = scratch.take<std::int8_t>(tokens * w.cols),
          .d = scratch.take<float>(tokens * blocks),
          .side = scratch.take<float>(tokens * blocks * w.kind.groups),
          .base = w.kind.bits == 8 ? scratch.take<std::int32_t>(tokens * blocks * w.kind.groups) : nullptr};
}

void packed_linear(const OpCall& call, const PackedTable& table) {
  const PackedMatrix& w = *call.in[1].packed;
  const std::int64_t tokens = call.in[0].rows;
  const std::int64_t blocks = w.cols / packed_block;
  Scratch scratch(call.scratch);
  const PackedInput x = cut(scratch, w, tokens);
  for_rows(call, tokens, [&](std::int64_t row, int) {
    const std::int64_t groups = row * blocks * w.kind.groups;
    table.round(call.in[0].f32() + row * w.cols, w.cols, w.kind,
                {.q = x.q + row * w.cols,
                 .d = x.d + row * blocks,
                 .side = x.side + groups,
                 .base = x.base != nullptr ? x.base + groups : nullptr});
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
  cut(scratch, *shape.in[1].packed, shape.in[0].rows);
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
