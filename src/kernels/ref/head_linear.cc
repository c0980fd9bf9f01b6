#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/rounded.h"

namespace knapsack::ref {
namespace {

// The integer form: each head's columns of each token are rounded on their own, those of one head side by side.
struct Heads {
  PackedJob* jobs;  // [heads]
  PackedInput x;    // [heads, tokens]
};

Heads cut(Scratch& scratch, const OpCall& call) {
  const std::int64_t heads = call.attrs->i(Attr::heads);
  auto* jobs = scratch.take<PackedJob>(heads);
  return {.jobs = jobs, .x = take_rounded(scratch, *call.in[1].packed, heads * call.in[0].rows)};
}

void packed_heads(const OpCall& call, const PackedTable& table) {
  constexpr std::int64_t piece = 16384;  // columns worth a thread
  const PackedMatrix* w = call.in[1].packed;
  const std::int64_t heads = call.attrs->i(Attr::heads);
  const std::int64_t tokens = call.in[0].rows;
  const std::int64_t stride = call.attrs->i(Attr::in_stride);
  Scratch scratch(call.scratch);
  const Heads cut_out = cut(scratch, call);
  const float* x = call.in[0].f32() + call.attrs->i(Attr::in_offset);
  const std::int64_t grain = std::max<std::int64_t>(1, piece / w->cols);
  call.pool->parallel_for(heads * tokens, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i)
      table.round(x + i % tokens * call.in[0].cols + i / tokens * stride, w->cols, w->kind, from_row(cut_out.x, *w, i));
  });
  for (std::int64_t h = 0; h < heads; ++h)
    cut_out.jobs[h] = {.w = w + h,
                       .x = from_row(cut_out.x, *w, h * tokens),
                       .y = call.out[0].f32() + h * w->rows,
                       .y_stride = call.out[0].cols,
                       .tokens = tokens};
  packed_matmul(table, {cut_out.jobs, static_cast<std::size_t>(heads)}, *call.pool);
}

}  // namespace

std::size_t head_linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  Scratch scratch;
  if (shape.in[1].packed != nullptr) {
    cut(scratch, shape);
    return scratch.used();
  }
  scratch.take<MatmulJob>(shape.attrs->i(Attr::heads));
  return scratch.used() + matmul_scratch_bytes(shape.in[0].rows, shape.in[1].weight->cols(), threads);
}

void head_linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed) {
  if (call.in[1].packed != nullptr) return packed_heads(call, packed);
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

void head_linear(const OpCall& call) { head_linear(call, scalar_matmul(), scalar_packed()); }

}  // namespace knapsack::ref
