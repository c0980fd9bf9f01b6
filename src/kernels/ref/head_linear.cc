#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/scratch.h"

namespace knapsack::ref {

std::size_t head_linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  Scratch scratch;
  scratch.take<MatmulJob>(shape.attrs->i(Attr::heads));
  return scratch.used() + matmul_scratch_bytes(shape.in[0].rows, shape.in[1].weight->cols(), threads);
}

void head_linear(const OpCall& call, const MatmulTable& table) {
  const Weight& w = *call.in[1].weight;
  const std::int64_t heads = call.attrs->i(Attr::heads);
  const std::int64_t rows = call.attrs->i(Attr::rows);
  const bool transposed = call.attrs->i(Attr::transposed) != 0;
  Scratch scratch(call.scratch);
  auto* jobs = scratch.take<MatmulJob>(heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t first_row = h * call.attrs->i(Attr::head_rows) + call.attrs->i(Attr::row_offset);
    jobs[h] = {.x = call.in[0].f32() + h * call.attrs->i(Attr::in_stride) + call.attrs->i(Attr::in_offset),
               .x_stride = call.in[0].cols,
               .y = call.out[0].f32() + h * (transposed ? w.cols() : rows),
               .y_stride = call.out[0].cols,
               .tokens = call.in[0].rows,
               .dtype = w.dtype,
               .w = w.slab(0) + first_row * w.row_size(),
               .rows = rows,
               .cols = w.cols(),
               .transposed = transposed};
  }
  matmul(table, {jobs, static_cast<std::size_t>(heads)}, *call.pool, scratch.rest());
}

void head_linear(const OpCall& call) { head_linear(call, scalar_matmul()); }

}  // namespace knapsack::ref
