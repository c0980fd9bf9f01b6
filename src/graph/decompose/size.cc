#include "graph/decompose/size.h"

namespace knapsack {

Result<void> decomposable(const Graph& graph) {
  constexpr std::int64_t most = 1000000;
  constexpr std::int64_t of_an_expert = 17;  // experts.cc
  std::int64_t nodes = 0;
  for (const Node& node : graph.list())
    nodes += node.op == Op::moe ? of_an_expert * graph.value(node.inputs[3]).weight->shape[0] : 1;
  if (nodes <= most) return {};
  return unsupported(
      "in primitive operators, each expert for itself, this model has more than {} nodes; at most {} are handled",
      nodes, most);
}

}  // namespace knapsack
