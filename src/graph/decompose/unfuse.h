// What a fused node is made of: a decoder's ops, or the operators of ONNX beside a product. Not for writing a decoder's
// ops in primitives: decompose() goes on from there.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace knapsack {

// fused_linear; a MatMul with a factor, a Conv or Gemm with its activation, what works on blocks of channels, kv_read
// with its columns first.
bool is_fused(const Node& node);

// `which` says of a fused node whether it is taken apart; null: every one. The same numbers, to the last bit where the
// products are made by the same kernels.
Graph unfuse(const Graph& graph, const std::function<bool(const Node&)>& which = nullptr);

}  // namespace knapsack
