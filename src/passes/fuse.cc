#include "passes/fuse.h"

namespace knapsack {

std::vector<ValueId> Product::inputs() const {
  std::vector<ValueId> inputs{x, w};
  for (const ValueId id : {norm, bias, residual})
    if (id >= 0) inputs.push_back(id);
  return inputs;
}

Attrs Product::attrs() const {
  Attrs attrs;
  if (norm >= 0) attrs.set(Attr::norm, 1).set(Attr::eps, eps);
  if (norm >= 0 && offset != 0) attrs.set(Attr::offset, offset);
  if (bias >= 0) attrs.set(Attr::bias, 1);
  if (act >= 0) attrs.set(Attr::act, act);
  if (residual >= 0) attrs.set(Attr::residual, 1);
  return attrs;
}

Attrs product_attrs(const Node& product) {
  if (product.op == Op::fused_linear) return product.attrs;
  return product.inputs.size() > 2 ? Attrs().set(Attr::bias, 1) : Attrs();
}

Product product_of(Rewriter& to, const Node& node) {
  const auto in = to.of(node.inputs);
  const Attrs& a = node.attrs;
  Product product{.x = in[0], .w = in[1]};
  if (node.op == Op::linear) {
    if (in.size() > 2) product.bias = in[2];
    return product;
  }
  std::size_t next = 2;
  if (a.i(Attr::norm) != 0) {
    product.norm = in[next++];
    product.eps = a.f(Attr::eps);
    product.offset = a.f(Attr::offset);
  }
  if (a.i(Attr::bias) != 0) product.bias = in[next++];
  if (a.i(Attr::residual) != 0) product.residual = in[next++];
  if (a.has(Attr::act)) product.act = a.i(Attr::act);
  return product;
}

bool fits_on_chip(const Target& target, std::int64_t floats) {
  constexpr std::int64_t half = 2;  // bytes of what an NPU keeps
  return target.on_chip_bytes == 0 || floats <= target.on_chip_bytes / half;
}

bool fits_on_chip(const PassContext& context, std::int64_t floats) {
  return fits_on_chip(context.target, context.step.tokens * floats);
}

bool encodes(const Target& target, const Graph& graph, const Node& node, Op op, const Attrs& attrs) {
  if (target.has == nullptr) return true;
  Node wanted = node;
  wanted.op = op;
  wanted.attrs = attrs;
  return target.has(graph, wanted);
}

}  // namespace knapsack
