// A Relu or Clip that alone reads what a Conv or Gemm makes becomes the end of it: of a Conv-BN-ReLU, whose BatchNorm
// is in the weights already (drop_training), one node is left.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "passes/fuse.h"

namespace knapsack {

Result<Graph> pass_fuse_conv(const Graph& graph, const PassContext& context) {
  const Uses uses(graph);
  const auto fused = [](const Node& product, const Node& act) {
    Attrs attrs = product.attrs;
    if (act.op == Op::Relu) attrs.set(Attr::low, 0.0);
    for (const Attr key : {Attr::low, Attr::high})
      if (act.op == Op::Clip && act.attrs.has(key)) attrs.set(key, act.attrs.f(key));
    return attrs;
  };
  std::map<std::string, int> kept;  // apart, since the target has no encoding of both in one
  // The product before the node, by number; -1: there is no such one, or the target lacks it.
  const auto product_before = [&](const Node& node) {
    if (node.op != Op::Relu && node.op != Op::Clip) return -1;
    const int at = uses.maker[static_cast<std::size_t>(node.inputs[0])];
    if (at < 0 || !uses.only(node.inputs[0])) return -1;
    const Node& product = graph.list()[static_cast<std::size_t>(at)];
    if ((product.op != Op::Conv && product.op != Op::Gemm) || product.unit != node.unit) return -1;
    if (product.attrs.has(Attr::low) || product.attrs.has(Attr::high)) return -1;
    // Of each place, all channels.
    const auto& dims = graph.value(node.inputs[0]).dims;
    if (!fits_on_chip(context.target, dims[1])) return -1;
    if (encodes(context.target, graph, product, product.op, fused(product, node))) return at;
    ++kept[std::string(op_info(node.op).text)];
    return -1;
  };
  std::vector<int> products;
  std::vector<bool> gone(graph.list().size(), false);
  products.reserve(graph.list().size());
  for (const Node& node : graph.list()) {
    products.push_back(product_before(node));
    if (products.back() >= 0) gone[static_cast<std::size_t>(products.back())] = true;
  }
  if (!kept.empty() && context.note != nullptr) {
    std::vector<std::string> counts;
    counts.reserve(kept.size());
    for (const auto& [op, count] : kept) counts.push_back(fmt::format("{} {}", count, op));
    context.note(
        fmt::format("{} stay behind their products: the table of {} does not say that they can be the end of one",
                    fmt::join(counts, " and "), context.target.name));
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (gone[i]) continue;
    if (products[i] < 0) {
      to.copy(node);
      continue;
    }
    const Node& product = graph.list()[static_cast<std::size_t>(products[i])];
    to.replace(node.outputs[0], to.node(node, product.op, to.of(product.inputs), fused(product, node)));
  }
  return to.finish();
}

}  // namespace knapsack
