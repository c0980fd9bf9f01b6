// The sum of a product that nothing else reads and of something else becomes a part of the product, where the sum
// stood.
#include "passes/fuse.h"

namespace knapsack {

Result<Graph> pass_fuse_residuals(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  struct Sum {
    int product = -1;
    ValueId other = -1;
  };
  std::vector<bool> gone(graph.list().size(), false);
  const auto sum_of = [&](const Node& node) -> Sum {
    if (node.op != Op::add || node.inputs[0] == node.inputs[1]) return {};
    for (const std::size_t side : {1U, 0U}) {
      const ValueId id = node.inputs[side];
      const int at = uses.maker[static_cast<std::size_t>(id)];
      if (at < 0 || !uses.only(id) || gone[static_cast<std::size_t>(at)]) continue;
      const Node& product = graph.list()[static_cast<std::size_t>(at)];
      if (!is_product(product) || product.attrs.i(Attr::residual) != 0 || product.unit != node.unit) continue;
      if (!fits_on_chip(context, graph.value(id).cols())) continue;
      Attrs attrs = product_attrs(product);
      if (encodes(context.target, graph, product, Op::fused_linear, attrs.set(Attr::residual, 1)))
        return {.product = at, .other = node.inputs[1 - side]};
    }
    return {};
  };
  std::vector<Sum> sums;
  sums.reserve(graph.list().size());
  for (const Node& node : graph.list()) {
    sums.push_back(sum_of(node));
    if (sums.back().product >= 0) gone[static_cast<std::size_t>(sums.back().product)] = true;
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (gone[i]) continue;
    if (sums[i].product < 0) {
      to.copy(node);
      continue;
    }
    Product product = product_of(to, graph.list()[static_cast<std::size_t>(sums[i].product)]);
    product.residual = to.of(sums[i].other);
    to.replace(node.outputs[0], to.node(node, Op::fused_linear, product.inputs(), product.attrs()));
  }
  return to.finish();
}

}  // namespace knapsack
