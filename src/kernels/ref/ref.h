// The scalar reference of every op: the definition that every other kernel, target and pass is compared with.
// One file an op of ops.inc, named as the op; operators of primitives.inc are in primitive/, by kind. Shapes and
// formulas stand in those lists. Not for speed beyond using the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernel.h"

namespace knapsack::ref {

#define KNAP_OP(id, text, cls, min_in, max_in, out) void id(const OpCall& call);
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) void id(const OpCall& call);
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE

std::size_t linear_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t fused_linear_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t head_linear_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t attention_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t router_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t matmul_primitive_scratch(const OpCall& shape, std::int64_t ctx, int threads);
std::size_t moe_scratch(const OpCall& shape, std::int64_t ctx, int threads);

// act(x) of gated_act and moe: 0 silu, 1 gelu, 2 gelu_tanh.
float activate(std::int64_t act, float x);

// Elements [begin, end) of an element-wise op; pieces large enough to be worth a thread.
template <class F>
void for_elements(const OpCall& call, std::int64_t count, F&& f) {
  call.pool->parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

// f(row, thread), rows spread over the threads.
template <class F>
void for_rows(const OpCall& call, std::int64_t rows, F&& f) {
  const std::int64_t grain = std::max<std::int64_t>(1, rows / (std::int64_t{4} * call.pool->size()));
  call.pool->parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t row = begin; row < end; ++row) f(row, thread);
  });
}

}  // namespace knapsack::ref
