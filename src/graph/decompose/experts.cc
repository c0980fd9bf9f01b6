// Mixtures of experts as exporters write them: every expert is there, each takes the tokens that chose it (NonZero: how
// many is known only when it runs) and adds its share to the sum (ScatterND).
#include "graph/decompose/decomposer.h"

namespace knapsack {

int activate(Decomposer& d, int x, std::int64_t act);  // rules.cc

namespace {
constexpr OnnxType f16 = OnnxType::float16;
constexpr OnnxType f32 = OnnxType::float32;
}  // namespace

void decompose_router(Decomposer& d, const Node& node) {
  const Attrs& a = node.attrs;
  const std::int64_t experts = a.i(Attr::experts);
  const std::int64_t top_k = a.i(Attr::top_k);
  const std::int64_t groups = a.i(Attr::groups, 1);
  const std::int64_t tokens = d.tokens();
  const int logits = d.cast(d.add(OnnxOp::Reshape, {d.flat(node.inputs[0])}, {tokens, experts}), f32);
  const int scores = a.i(Attr::score) != 0 ? d.add(OnnxOp::Sigmoid, {logits}) : d.add(OnnxOp::Softmax, {logits}, {1});
  int choice = scores;
  if (node.inputs.size() > 1) choice = d.add(OnnxOp::Add, {scores, d.weight(node.inputs[1], f32)});
  if (groups > 1) {
    const std::int64_t size = experts / groups;
    const std::int64_t best = a.i(Attr::top_groups, 1);
    const int grouped = d.add(OnnxOp::Reshape, {choice}, {tokens, groups, size});
    const int group = a.i(Attr::group_score) != 0
                          ? d.add(OnnxOp::ReduceSum, {d.add(OnnxOp::TopK, {grouped}, {2, 2})}, {2, 0})
                          : d.add(OnnxOp::ReduceMax, {grouped}, {2, 0});
    const int chosen = d.add_all(OnnxOp::TopK, {group}, {1, best})[1];
    const int none = d.constant(d.source().value(node.inputs[0]).name + ".no_group", {f32, {tokens, groups}, false},
                                tokens * groups * 4, {});
    const int ones =
        d.constant(d.source().value(node.inputs[0]).name + ".one", {f32, {tokens, best}, false}, tokens * best * 4, {});
    const int taken = d.add(OnnxOp::ScatterElements, {none, chosen, ones}, {1});
    const int spread = d.add(OnnxOp::Expand, {d.add(OnnxOp::Unsqueeze, {taken}, {2})}, {tokens, groups, size});
    const int mask = d.cast(d.add(OnnxOp::Reshape, {spread}, {tokens, experts}), OnnxType::boolean);
    choice = d.add(OnnxOp::Where, {mask, choice, d.number(0, f32)});
  }
  const auto best = d.add_all(OnnxOp::TopK, {choice}, {1, top_k});
  int weights = choice == scores ? best[0] : d.add(OnnxOp::GatherElements, {scores, best[1]}, {1});
  if (a.i(Attr::norm_topk) != 0) weights = d.add(OnnxOp::Div, {weights, d.add(OnnxOp::ReduceSum, {weights}, {1, 1})});
  if (a.f(Attr::scale, 1) != 1) weights = d.add(OnnxOp::Mul, {weights, d.number(a.f(Attr::scale, 1), f32)});
  d.set_flat(node.outputs[0], best[1]);
  d.set_flat(node.outputs[1], d.cast(weights, f16));
}

void decompose_moe(Decomposer& d, const Node& node) {
  const std::int64_t tokens = d.tokens();
  const std::int64_t hidden = d.source().value(node.inputs[0]).cols;
  const std::int64_t experts = d.source().value(node.inputs[3]).weight->shape[0];
  const int x = d.add(OnnxOp::Reshape, {d.flat(node.inputs[0])}, {tokens, hidden});
  const int one_hot = d.add(OnnxOp::OneHot, {d.flat(node.inputs[1])}, {experts});
  const int by_expert = d.add(OnnxOp::Transpose, {one_hot}, {2, 1, 0});            // [experts, top_k, tokens]
  const int weights = d.add(OnnxOp::Transpose, {d.flat(node.inputs[2])}, {1, 0});  // [top_k, tokens]
  int sum = d.constant(node.name + ".zeros", {f16, {tokens, hidden}, false}, tokens * hidden * 2, {});
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const int number = d.number(static_cast<double>(expert), OnnxType::int64);
    const int chosen = d.add(OnnxOp::Gather, {by_expert, number}, {0});
    // An expert is at most once among a token's choices.
    const int found = d.add(OnnxOp::NonZero, {chosen}, {tokens});
    const auto places = d.add_all(OnnxOp::Split, {found}, {0, 1, 1});
    const int rows = d.add(OnnxOp::Squeeze, {places[1]}, {0});
    const int mine = d.add(OnnxOp::Gather, {x, rows}, {0});
    const int gate =
        activate(d, d.add(OnnxOp::MatMul, {mine, d.matrix(node.inputs[3], expert)}), node.attrs.i(Attr::act));
    const int up = d.add(OnnxOp::MatMul, {mine, d.matrix(node.inputs[4], expert)});
    const int down = d.add(OnnxOp::MatMul, {d.add(OnnxOp::Mul, {gate, up}), d.matrix(node.inputs[5], expert)});
    const int share = d.add(OnnxOp::GatherND, {weights, d.add(OnnxOp::Transpose, {found}, {1, 0})});
    const int weighted = d.add(OnnxOp::Mul, {down, d.add(OnnxOp::Unsqueeze, {share}, {1})});
    sum = d.add(OnnxOp::ScatterND, {sum, d.add(OnnxOp::Unsqueeze, {rows}, {1}), weighted});
  }
  d.set_flat(node.outputs[0], d.add(OnnxOp::Reshape, {sum}, {1, tokens, hidden}));
}

}  // namespace knapsack
