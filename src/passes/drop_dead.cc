// Dead code: nodes whose results reach no output. Writes to the KV cache stay: the next step reads them.
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {

Result<Graph> pass_drop_dead(const Graph& graph, const PassContext&) {
  std::vector<bool> wanted(graph.values().size(), false);
  for (const ValueId id : graph.outputs()) wanted[static_cast<std::size_t>(id)] = true;
  std::vector<bool> live(graph.list().size(), false);
  for (std::size_t i = graph.list().size(); i-- > 0;) {
    const Node& node = graph.list()[i];
    live[i] = node.op == Op::kv_write;
    for (const ValueId id : node.outputs) live[i] = live[i] || wanted[static_cast<std::size_t>(id)];
    if (!live[i]) continue;
    for (const ValueId id : node.inputs) wanted[static_cast<std::size_t>(id)] = true;
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i)
    if (live[i]) to.copy(graph.list()[i]);
  return to.finish();
}

}  // namespace knapsack
