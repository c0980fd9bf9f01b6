// Ops that the target lacks are written in those it has: a fused op in the ops it is made of, a decoder's op in
// primitives. What the target has stays. A node that is still refused then is left as it is: where it runs is decided
// when the graph is partitioned, with its reason.
#include <algorithm>

#include "graph/decompose/decompose.h"
#include "graph/decompose/unfuse.h"
#include "passes/pass.h"

namespace knapsack {

Result<Graph> pass_legalize(const Graph& graph, const PassContext& context) {
  const auto& has = context.target.has;
  if (has == nullptr) return graph;
  Graph parts = unfuse(graph, [&](const Node& node) { return !has(graph, node); });
  const auto lacks = [&](const Node& node) { return !op_info(node.op).primitive && !has(parts, node); };
  if (std::none_of(parts.list().begin(), parts.list().end(), lacks)) return parts;
  if (!parts.tokens()) return parts;  // primitives all
  return decompose(
      parts,
      {.tokens = context.tokens, .kv = KvForm::indexed, .ctx = context.ctx, .floats = DType::F32, .decomposes = lacks});
}

}  // namespace knapsack
