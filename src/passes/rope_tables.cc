// RoPE's angles depend on positions alone: cos and sin of all positions of the context become tables, computed as
// kernels/ref/rope.cc does, and rope looks its row up.
#include <cmath>
#include <map>

#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

struct Tables {
  std::shared_ptr<const Weight> cos, sin;
};

Tables tables_of(const Weight& inv_freq, float scale, std::int64_t ctx, bool data) {
  const std::int64_t half = inv_freq.shape[0];
  const auto table = [&](std::string_view name, float (*f)(float)) -> std::shared_ptr<const Weight> {
    std::string full =
        scale == 1 ? fmt::format("{}.{}", inv_freq.name, name) : fmt::format("{}.{}*{}", inv_freq.name, name, scale);
    if (inv_freq.slabs.empty() || !data) {
      auto shape = std::make_shared<Weight>();
      shape->name = std::move(full);
      shape->shape = {ctx, half};
      return shape;
    }
    std::vector<float> values(static_cast<std::size_t>(ctx * half));
    for (std::int64_t p = 0; p < ctx; ++p)
      for (std::int64_t i = 0; i < half; ++i)
        values[static_cast<std::size_t>(p * half + i)] = f(static_cast<float>(p) * inv_freq.f32()[i]) * scale;
    return f32_weight(std::move(full), {ctx, half}, values);
  };
  return {.cos = table("cos", [](float x) { return std::cos(x); }),
          .sin = table("sin", [](float x) { return std::sin(x); })};
}

}  // namespace

Result<Graph> pass_rope_tables(const Graph& graph, const PassContext& context) {
  Rewriter to(graph);
  std::map<std::pair<ValueId, float>, Tables> known;
  for (const Node& node : graph.list()) {
    const bool fixed = node.op == Op::rope && !graph.value(node.inputs[0]).symbolic();
    if (!fixed) {
      to.copy(node);
      continue;
    }
    const float scale = node.attrs.f(Attr::scale, 1);
    const auto [it, fresh] = known.try_emplace({node.inputs[1], scale});
    if (fresh) it->second = tables_of(*graph.value(node.inputs[1]).weight, scale, context.step.ctx, context.data);
    Attrs attrs;
    for (const Attr key : {Attr::heads, Attr::stride, Attr::begin, Attr::rotary, Attr::interleaved})
      if (node.attrs.has(key)) attrs.set(key, node.attrs.i(key));
    const ValueId cos = to.to().constant(it->second.cos);
    const ValueId sin = to.to().constant(it->second.sin);
    to.replace(node.outputs[0], to.node(node, Op::rope_cached, {to.of(node.inputs[0]), cos, sin}, std::move(attrs)));
  }
  return to.finish();
}

}  // namespace knapsack
