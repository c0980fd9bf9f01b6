// gated_act of the two halves of one product (merge_linears makes it) becomes a part of that product: gate and up are
// never written to memory.
#include "passes/fuse.h"

namespace knapsack {
namespace {

// The product and the split before the node, by number; -1: it is another gated_act.
struct Before {
  int product = -1, split = -1;
};

Before before(const Graph& graph, const Uses& uses, const Node& node, const PassContext& context) {
  if (node.op != Op::gated_act) return {};
  const auto maker = [&](ValueId id) { return uses.maker[static_cast<std::size_t>(id)]; };
  const int split = maker(node.inputs[0]);
  if (split < 0 || split != maker(node.inputs[1])) return {};
  const Node& parts = graph.list()[static_cast<std::size_t>(split)];
  if (parts.op != Op::Split || parts.outputs != node.inputs || parts.attrs.i(Attr::axis) != 1) return {};
  if (!uses.only(parts.outputs[0]) || !uses.only(parts.outputs[1]) || !uses.only(parts.inputs[0])) return {};
  if (graph.value(parts.outputs[0]).cols() != graph.value(parts.outputs[1]).cols()) return {};
  const int product = maker(parts.inputs[0]);
  if (product < 0 || graph.list()[static_cast<std::size_t>(product)].op != Op::linear) return {};
  if (!fits_on_chip(context, graph.value(parts.inputs[0]).cols())) return {};
  const Node& linear = graph.list()[static_cast<std::size_t>(product)];
  Attrs attrs = product_attrs(linear);
  attrs.set(Attr::act, node.attrs.i(Attr::act));
  if (linear.unit != node.unit || !encodes(context.target, graph, linear, Op::fused_linear, attrs)) return {};
  return {.product = product, .split = split};
}

}  // namespace

Result<Graph> pass_fuse_gates(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  std::vector<Before> found;
  std::vector<bool> gone(graph.list().size(), false);
  for (const Node& node : graph.list()) {
    found.push_back(before(graph, uses, node, context));
    if (found.back().product < 0) continue;
    gone[static_cast<std::size_t>(found.back().product)] = true;
    gone[static_cast<std::size_t>(found.back().split)] = true;
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (gone[i]) continue;
    if (found[i].product < 0) {
      to.copy(node);
      continue;
    }
    Product product = product_of(to, graph.list()[static_cast<std::size_t>(found[i].product)]);
    product.act = node.attrs.i(Attr::act);
    to.replace(node.outputs[0], to.node(node, Op::fused_linear, product.inputs(), product.attrs()));
  }
  return to.finish();
}

}  // namespace knapsack
