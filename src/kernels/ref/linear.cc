#include "kernels/matmul.h"
#include "kernels/ref/ref.h"

namespace knapsack::ref {

std::size_t linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  return matmul_scratch_bytes(shape.in[0].rows, shape.in[0].cols, threads);
}

void linear(const OpCall& call, const MatmulTable& table) {
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

void linear(const OpCall& call) { linear(call, scalar_matmul()); }

}  // namespace knapsack::ref
