// The ops of a decoder that a fused op is made of. Not for primitives: decompose() goes on from there.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace knapsack {

inline bool is_fused(Op op) { return op == Op::fused_linear; }

// `which` says of a fused node whether it is taken apart; null: every one. The same numbers, to the last bit where the
// products are made by the same kernels.
Graph unfuse(const Graph& graph, const std::function<bool(const Node&)>& which = nullptr);

}  // namespace knapsack
