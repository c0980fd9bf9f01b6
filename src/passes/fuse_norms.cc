// A norm of whole rows that one product reads, and nothing else, becomes a part of it.
#include "passes/fuse.h"

namespace knapsack {

Result<Graph> pass_fuse_norms(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  // The norm that the product's input is, by number; -1: it is none, or has other readers.
  const auto norm_of = [&](const Node& node) {
    if (!is_product(node) || node.attrs.i(Attr::norm) != 0) return -1;
    const int at = uses.maker[static_cast<std::size_t>(node.inputs[0])];
    if (at < 0 || !uses.only(node.inputs[0])) return -1;
    const Node& norm = graph.list()[static_cast<std::size_t>(at)];
    const std::int64_t cols = graph.value(node.inputs[0]).cols();
    const bool whole = norm.op == Op::rms_norm && norm.inputs.size() > 1 && norm.attrs.i(Attr::width, cols) == cols;
    if (!whole || !fits_on_chip(context, cols) || norm.unit != node.unit) return -1;
    Attrs attrs = product_attrs(node);
    attrs.set(Attr::norm, 1).set(Attr::eps, norm.attrs.f(Attr::eps));
    return encodes(context.target, graph, node, Op::fused_linear, attrs) ? at : -1;
  };
  std::vector<int> norms;
  std::vector<bool> gone(graph.list().size(), false);
  norms.reserve(graph.list().size());
  for (const Node& node : graph.list()) {
    norms.push_back(norm_of(node));
    if (norms.back() >= 0) gone[static_cast<std::size_t>(norms.back())] = true;
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (gone[i]) continue;
    if (norms[i] < 0) {
      to.copy(node);
      continue;
    }
    const Node& norm = graph.list()[static_cast<std::size_t>(norms[i])];
    to.replace(node.inputs[0], to.of(norm.inputs[0]));
    Product product = product_of(to, node);
    product.norm = to.of(norm.inputs[1]);
    product.eps = norm.attrs.f(Attr::eps);
    product.offset = norm.attrs.f(Attr::offset);
    to.replace(node.outputs[0], to.node(node, Op::fused_linear, product.inputs(), product.attrs()));
  }
  return to.finish();
}

}  // namespace knapsack
