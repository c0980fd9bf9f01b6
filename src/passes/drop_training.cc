// What training leaves behind: Identity and Dropout are their input. A BatchNormalization of constants behind a Conv
// that nothing else reads becomes a part of its weight and bias: w' = w * s, b' = (b - mean) * s + bias with
// s = scale / sqrt(variance + eps).
#include <cmath>

#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

bool floats(const Graph& graph, ValueId id) {
  const Value& v = graph.value(id);
  return v.kind == ValueKind::constant && v.dtype == DType::F32 && !v.transposed && v.weight->slabs.size() == 1;
}

// The Conv whose only reader the node is, by number; -1: there is no such one.
int conv_before(const Graph& graph, const Uses& uses, const Node& node) {
  if (node.op != Op::BatchNormalization) return -1;
  const int at = uses.maker[static_cast<std::size_t>(node.inputs[0])];
  if (at < 0 || !uses.only(node.inputs[0])) return -1;
  const Node& conv = graph.list()[static_cast<std::size_t>(at)];
  bool constant = conv.op == Op::Conv;
  for (std::size_t i = 1; constant && i < conv.inputs.size(); ++i) constant = floats(graph, conv.inputs[i]);
  for (std::size_t i = 1; constant && i < node.inputs.size(); ++i) constant = floats(graph, node.inputs[i]);
  return constant ? at : -1;
}

void fold(Rewriter& to, const Node& conv, const Node& norm) {
  const Graph& graph = to.from();
  const auto vector = [&](std::size_t input) { return graph.value(norm.inputs[input]).weight->f32(); };
  const Weight& w = *graph.value(conv.inputs[1]).weight;
  const std::int64_t outputs = w.shape[0];
  const std::int64_t taps = w.elements() / outputs;
  std::vector<float> weights(static_cast<std::size_t>(w.elements()));
  std::vector<float> biases(static_cast<std::size_t>(outputs));
  for (std::int64_t m = 0; m < outputs; ++m) {
    const float scale = vector(1)[m] / std::sqrt(vector(4)[m] + norm.attrs.f(Attr::eps));
    const float bias = conv.inputs.size() > 2 ? graph.value(conv.inputs[2]).weight->f32()[m] : 0.0F;
    for (std::int64_t i = m * taps; i < (m + 1) * taps; ++i) weights[static_cast<std::size_t>(i)] = w.f32()[i] * scale;
    biases[static_cast<std::size_t>(m)] = (bias - vector(3)[m]) * scale + vector(2)[m];
  }
  const ValueId weight = to.to().constant(f32_weight(w.name + ".folded", w.shape, weights));
  const ValueId bias = to.to().constant(f32_weight(w.name + ".folded_bias", {outputs}, biases));
  to.replace(norm.outputs[0], to.node(norm, Op::Conv, {to.of(conv.inputs[0]), weight, bias}, conv.attrs));
}

}  // namespace

Result<Graph> pass_drop_training(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  std::vector<bool> folded(graph.list().size(), false);
  std::vector<int> conv(graph.list().size(), -1);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    conv[i] = conv_before(graph, uses, graph.list()[i]);
    if (conv[i] >= 0) folded[static_cast<std::size_t>(conv[i])] = true;
  }
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (folded[i]) continue;
    const bool nothing = node.op == Op::Identity || node.op == Op::Dropout;
    // An output is made by a node.
    const bool is_input = nothing && graph.value(node.inputs[0]).kind != ValueKind::computed;
    if (nothing && is_input && uses.output[static_cast<std::size_t>(node.outputs[0])]) {
      to.replace(node.outputs[0], to.node(node, Op::Identity, {to.of(node.inputs[0])}, {}));
    } else if (nothing) {
      to.replace(node.outputs[0], to.of(node.inputs[0]));
    } else if (conv[i] >= 0) {
      fold(to, graph.list()[static_cast<std::size_t>(conv[i])], node);
    } else {
      to.copy(node);
    }
  }
  return to.finish();
}

}  // namespace knapsack
