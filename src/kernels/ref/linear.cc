#include <array>

#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/rounded.h"

namespace knapsack::ref {
namespace {

void packed_linear(const OpGroup& group, const PackedTable& table) {
  const std::span<const OpCall> calls = group.calls;
  const OpCall& first = calls.front();
  const PackedMatrix& w = *first.in[1].packed;
  const std::int64_t tokens = first.in[0].rows;
  Scratch scratch(first.scratch);
  const PackedInput x = take_rounded(scratch, w, tokens);
  for_rows(first, tokens, [&](std::int64_t row, int) {
    if (group.before != nullptr) group.make_row(row);
    table.round(first.in[0].f32() + row * w.cols, w.cols, w.kind, from_row(x, w, row));
  });
  std::array<PackedJob, group_calls> jobs;
  CHECK(calls.size() <= jobs.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const OpCall& call = calls[i];
    jobs[i] = {.w = call.in[1].packed,
               .x = x,
               .y = call.out[0].f32(),
               .y_stride = call.out[0].cols,
               .tokens = tokens,
               .bias = call.in.size() > 2 ? call.in[2].weight->f32() : nullptr};
  }
  packed_matmul(table, {jobs.data(), calls.size()}, *first.pool);
}

}  // namespace

std::size_t linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  if (shape.in[1].packed == nullptr) return matmul_scratch_bytes(shape.in[0].rows, shape.in[0].cols, threads);
  Scratch scratch;
  take_rounded(scratch, *shape.in[1].packed, shape.in[0].rows);
  return scratch.used();
}

void linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed) {
  if (call.in[1].packed != nullptr) return packed_linear({.calls = {&call, 1}}, packed);
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

bool linear_joins(const OpCall& first, const OpCall& next) {
  return first.in[1].packed != nullptr && next.in[1].packed != nullptr &&
         same_input(*first.in[1].packed, *next.in[1].packed);
}

void linear_group(const OpGroup& group, const PackedTable& packed) { packed_linear(group, packed); }

void linear(const OpCall& call) { linear(call, scalar_matmul(), scalar_packed()); }

}  // namespace knapsack::ref
