#include <array>

#include "kernels/matmul.h"
#include "kernels/ref/ref.h"
#include "kernels/ref/rounded.h"

namespace knapsack::ref {
namespace {

// What is added to the result of the group's only call; null: nothing.
const float* residual_of(const OpGroup& group) {
  if (group.after == nullptr) return nullptr;
  const std::span<const Operand> terms = group.after->in;
  return (terms[0].data == group.calls[0].out[0].data ? terms[1] : terms[0]).f32();
}

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
  if (group.after != nullptr) {
    jobs[0].y = group.after->out[0].f32();
    jobs[0].residual = residual_of(group);
  }
  packed_matmul(table, {jobs.data(), calls.size()}, *first.pool);
}

void float_linear(const OpGroup& group, const MatmulTable& table) {
  const OpCall& call = group.calls.front();
  const Weight& w = *call.in[1].weight;
  const Operand& out = group.after != nullptr ? group.after->out[0] : call.out[0];
  const MatmulJob job{.x = call.in[0].f32(),
                      .x_stride = call.in[0].cols,
                      .y = out.f32(),
                      .y_stride = out.cols,
                      .tokens = call.in[0].rows,
                      .dtype = w.dtype,
                      .w = w.slab(0),
                      .rows = w.shape[0],
                      .cols = w.shape[1],
                      .bias = call.in.size() > 2 ? call.in[2].weight->f32() : nullptr,
                      .residual = residual_of(group)};
  matmul(table, {&job, 1}, *call.pool, call.scratch);
}

}  // namespace

std::size_t linear_scratch(const OpCall& shape, std::int64_t, int threads) {
  if (shape.in[1].packed == nullptr) return matmul_scratch_bytes(shape.in[0].rows, shape.in[0].cols, threads);
  Scratch scratch;
  take_rounded(scratch, *shape.in[1].packed, shape.in[0].rows);
  return scratch.used();
}

void linear(const OpCall& call, const MatmulTable& table, const PackedTable& packed) {
  linear_group({.calls = {&call, 1}}, table, packed);
}

bool linear_joins(const OpCall& first, const OpCall& next) {
  return first.in[1].packed != nullptr && next.in[1].packed != nullptr &&
         same_input(*first.in[1].packed, *next.in[1].packed);
}

// Integer products have read the whole input before they write; float ones read it until the end, and what add writes
// may lie where it was.
bool linear_adds(const OpCall& call, const OpCall& add) {
  if (call.in[1].packed != nullptr) return true;
  const auto end = [](const Operand& x) { return x.data + x.rows * x.cols * std::int64_t{sizeof(float)}; };
  const Operand& in = call.in[0];
  const Operand& out = add.out[0];
  return out.data >= end(in) || in.data >= end(out);
}

void linear_group(const OpGroup& group, const MatmulTable& table, const PackedTable& packed) {
  if (group.calls.front().in[1].packed != nullptr) {
    packed_linear(group, packed);
  } else {
    CHECK(group.before == nullptr && group.calls.size() == 1);
    float_linear(group, table);
  }
}

void linear(const OpCall& call) { linear(call, scalar_matmul(), scalar_packed()); }

}  // namespace knapsack::ref
