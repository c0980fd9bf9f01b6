// The scale of attention: scores are Softmax(scale * q k' + mask), and exporters write the scale as a Mul or Div of the
// product by one number, or of what is multiplied, q and k each by its root. It becomes the factor of the product
// (alpha), which an NPU applies to its sums for nothing; the mask is added behind it, as before. Where the target has
// no such product, a scale behind it goes to its left side, if that is smaller: q of one token, not a score a position.
// Not for a scale behind the mask: minus infinity and what stands for it are not to be scaled.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "passes/fuse.h"

namespace knapsack {
namespace {

bool moves(Op op) { return op == Op::Reshape || op == Op::Transpose || op == Op::Unsqueeze || op == Op::Squeeze; }

// What the node multiplies its other input with: one number that is known, finite and not 0.
struct Scale {
  std::size_t of = 0;  // the input
  float factor = 1;
};
std::optional<Scale> scale_of(const Graph& graph, const Node& node) {
  if (node.op != Op::Mul && node.op != Op::Div) return std::nullopt;
  for (const std::size_t side : {1U, 0U}) {
    const Value& v = graph.value(node.inputs[side]);
    if (side == 0 && node.op == Op::Div) continue;
    if (v.kind != ValueKind::constant || v.elements() != 1 || v.weight->slabs.empty()) continue;
    if (v.dtype != DType::F32 && v.dtype != DType::F16) continue;
    // Of as many dimensions as there were: a number of more would add some.
    if (graph.value(node.outputs[0]).dims != graph.value(node.inputs[1 - side]).dims) continue;
    float value = 0;
    format(v.dtype).decode(v.weight->slab(0), &value, 1);
    const float factor = node.op == Op::Div ? 1 / value : value;
    if (std::isfinite(factor) && factor != 0) return Scale{.of = 1 - side, .factor = factor};
  }
  return std::nullopt;
}

class Fuser {
 public:
  Fuser(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph), factors_(graph.list().size(), 1), gone_(graph.list().size()) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.list().size(); ++i)
      if (graph_.list()[i].op == Op::MatMul) product(static_cast<int>(i));
    Rewriter to(graph_);
    const auto scaled = [&](const Node& node, float by) {
      const std::string name = fmt::format("{}/scale", node.name);
      const ValueId factor = to.to().constant(f32_weight(to.fresh(name + ".factor"), {}, {by}));
      auto inputs = to.of(node.inputs);
      inputs[0] = to.to().node(Op::Mul, to.fresh(name), {inputs[0], factor});
      take_provenance(to.to().last(), node);
      to.copy(node, std::move(inputs), node.attrs);
    };
    for (std::size_t i = 0; i < graph_.list().size(); ++i) {
      const Node& node = graph_.list()[i];
      if (gone_[i]) {
        to.replace(node.outputs[0], to.of(node.inputs[scale_of(graph_, node)->of]));
      } else if (moved_.count(i) > 0) {
        scaled(node, factors_[i]);
      } else if (factors_[i] != 1) {
        Attrs attrs = without(node.attrs, {Attr::alpha});
        to.copy(node, to.of(node.inputs), attrs.set(Attr::alpha, node.attrs.f(Attr::alpha, 1) * factors_[i]));
      } else {
        to.copy(node);
      }
    }
    return to.finish();
  }

 private:
  void product(int at) {
    const Node& node = graph_.list()[static_cast<std::size_t>(at)];
    const bool fits = fits_on_chip(context_.target, graph_.value(node.outputs[0]).cols());
    if (!encodes(context_.target, graph_, node, Op::MatMul, Attrs().set(Attr::alpha, 0.5))) return move(node, at);
    if (!fits) return;
    // Two constants have no scale to spare: folding makes one of them.
    for (const ValueId id : node.inputs) before(node, at, id);
    behind_all(node, at);
  }

  void behind_all(const Node& product, int at) {
    for (int scale = behind(product.outputs[0]); scale >= 0 && take(product, at, scale);)
      scale = behind(graph_.list()[static_cast<std::size_t>(scale)].outputs[0]);
  }

  // Without a factor of the product: all on the left side, where that is the smallest.
  void move(const Node& product, int at) {
    const Value& left = graph_.value(product.inputs[0]);
    const std::int64_t others =
        std::min(graph_.value(product.inputs[1]).elements(), graph_.value(product.outputs[0]).elements());
    if (left.kind == ValueKind::constant || left.elements() >= others) return;
    before(product, at, product.inputs[1]);
    behind_all(product, at);
    if (factors_[static_cast<std::size_t>(at)] == 1) return;
    before(product, at, product.inputs[0]);
    moved_.insert(static_cast<std::size_t>(at));
  }

  // q and k: through what moves them only.
  void before(const Node& product, int at, ValueId id) {
    while (uses_.only(id)) {
      const int maker = uses_.maker[static_cast<std::size_t>(id)];
      if (maker < 0) return;
      const Node& node = graph_.list()[static_cast<std::size_t>(maker)];
      if (take(product, at, maker)) {
        id = node.inputs[scale_of(graph_, node)->of];
      } else if (moves(node.op)) {
        id = node.inputs[0];
      } else {
        return;
      }
    }
  }

  // The first that reads it and does not move it only, by number; -1: there are several, or none.
  [[nodiscard]] int behind(ValueId id) const {
    while (uses_.only(id)) {
      const int reader = uses_.readers[static_cast<std::size_t>(id)][0];
      const Node& node = graph_.list()[static_cast<std::size_t>(reader)];
      if (!moves(node.op)) return reader;
      id = node.outputs[0];
    }
    return -1;
  }

  bool take(const Node& product, int at, int number) {
    const Node& node = graph_.list()[static_cast<std::size_t>(number)];
    const auto scale = scale_of(graph_, node);
    if (!scale || gone_[static_cast<std::size_t>(number)] || node.unit != product.unit) return false;
    // An output is made by a node, and so is what is behind it.
    if (uses_.output[static_cast<std::size_t>(node.outputs[0])]) return false;
    if (uses_.maker[static_cast<std::size_t>(node.inputs[scale->of])] < 0) return false;
    const float factor = factors_[static_cast<std::size_t>(at)] * scale->factor;
    if (!std::isnormal(factor)) return false;
    factors_[static_cast<std::size_t>(at)] = factor;
    gone_[static_cast<std::size_t>(number)] = true;
    return true;
  }

  const Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  std::vector<float> factors_;  // by node: of products
  std::vector<bool> gone_;
  std::set<std::size_t> moved_;  // products whose factor goes to their left side
};

}  // namespace

Result<Graph> pass_fuse_scales(const Graph& graph, const PassContext& context) { return Fuser(graph, context).run(); }

}  // namespace knapsack
