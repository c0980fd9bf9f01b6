// Reshape, Squeeze and Unsqueeze are other eyes on the same numbers: of several behind each other the last one looks at
// what the first one looked at, and one that sees what there was goes.
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

bool reshapes(Op op) { return op == Op::Reshape || op == Op::Squeeze || op == Op::Unsqueeze; }

}  // namespace

Result<Graph> pass_merge_reshapes(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    if (!reshapes(node.op)) {
      to.copy(node);
      continue;
    }
    ValueId from = node.inputs[0];
    for (int maker = uses.maker[static_cast<std::size_t>(from)];
         maker >= 0 && reshapes(graph.list()[static_cast<std::size_t>(maker)].op);
         maker = uses.maker[static_cast<std::size_t>(from)])
      from = graph.list()[static_cast<std::size_t>(maker)].inputs[0];
    const Value& source = graph.value(from);
    const Value& made = graph.value(node.outputs[0]);
    // An output is made by a node; sizes that depend on data are not told by shapes.
    const bool output = uses.output[static_cast<std::size_t>(node.outputs[0])];
    const bool same = source.dims == made.dims && source.kind != ValueKind::constant && source.type() == made.type();
    if (same && !output && !made.dynamic) {
      to.replace(node.outputs[0], to.of(from));
    } else if (from != node.inputs[0] && !made.dynamic) {
      to.replace(node.outputs[0], to.node(node, Op::Reshape, {to.of(from)}, Attrs().set(Attr::shape, made.dims)));
    } else {
      to.copy(node);
    }
  }
  return to.finish();
}

}  // namespace knapsack
