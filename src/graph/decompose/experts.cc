// Mixtures of experts. As exporters write them every expert is there, each takes the tokens that chose it (NonZero: how
// many is known only when it runs) and adds its share to the sum (ScatterND). What runs has static shapes: either the
// chosen experts' weights are gathered, or all experts see all tokens and those not chosen weigh nothing, whichever
// makes fewer products.
#include <fmt/format.h>
#include <cmath>

#include "graph/decompose/decomposer.h"

namespace knapsack {

ValueId activate(Decomposer& d, ValueId x, std::int64_t act);  // rules.cc

namespace {
constexpr DType f32 = DType::F32;

Attrs top_k(std::int64_t along, std::int64_t k) { return axis(along).set(Attr::k, k); }
}  // namespace

void decompose_router(Decomposer& d, const Node& node) {
  const Attrs& a = node.attrs;
  const std::int64_t experts = a.i(Attr::experts);
  const std::int64_t chosen = a.i(Attr::top_k);
  const std::int64_t groups = a.i(Attr::groups, 1);
  const std::int64_t tokens = d.tokens();
  const ValueId rows = d.appends() ? d.reshape(d.flat(node.inputs[0]), {tokens, experts}) : d.rows(node.inputs[0]);
  const ValueId logits = d.cast(rows, f32);
  const ValueId scores = a.i(Attr::score) != 0 ? d.add(Op::Sigmoid, {logits}) : d.add(Op::Softmax, {logits}, axis(1));
  ValueId choice = scores;
  if (node.inputs.size() > 1) choice = d.add(Op::Add, {scores, d.weight(node.inputs[1], f32)});
  if (groups > 1) {
    const std::int64_t size = experts / groups;
    const std::int64_t best = a.i(Attr::top_groups, 1);
    const std::string& name = d.source().value(node.inputs[0]).name;
    const ValueId grouped = d.reshape(choice, {tokens, groups, size});
    const ValueId group = a.i(Attr::group_score) != 0
                              ? d.add(Op::ReduceSum, {d.add(Op::TopK, {grouped}, top_k(2, 2))}, axes({2}, false))
                              : d.add(Op::ReduceMax, {grouped}, axes({2}, false));
    const ValueId taken_groups = d.add_all(Op::TopK, {group}, top_k(1, best))[1];
    const ValueId none = d.fill(name + ".no_group", {tokens, groups}, f32, 0);
    const ValueId ones = d.fill(name + ".one", {tokens, best}, f32, 1);
    const ValueId taken = d.add(Op::ScatterElements, {none, taken_groups, ones}, axis(1));
    const ValueId spread = d.expand(d.unsqueeze(taken, 2), {tokens, groups, size});
    const ValueId mask = d.cast(d.reshape(spread, {tokens, experts}), DType::BOOL);
    choice = d.add(Op::Where, {mask, choice, d.number(0, f32)});
  }
  const auto best = d.add_all(Op::TopK, {choice}, top_k(1, chosen));
  ValueId weights = choice == scores ? best[0] : d.add(Op::GatherElements, {scores, best[1]}, axis(1));
  if (a.i(Attr::norm_topk) != 0) weights = d.add(Op::Div, {weights, d.add(Op::ReduceSum, {weights}, axes({1}, true))});
  if (a.f(Attr::scale, 1) != 1) weights = d.add(Op::Mul, {weights, d.number(a.f(Attr::scale, 1), f32)});
  d.set_rows(node.outputs[0], best[1]);
  d.set_rows(node.outputs[1], d.cast(weights, d.floats()));
}

namespace {

void scattered_experts(Decomposer& d, const Node& node) {
  const std::int64_t tokens = d.tokens();
  const std::int64_t hidden = d.source().value(node.inputs[0]).cols();
  const std::int64_t experts = d.source().value(node.inputs[3]).weight->shape[0];
  const ValueId x = d.reshape(d.flat(node.inputs[0]), {tokens, hidden});
  const ValueId one_hot = d.add(Op::OneHot, {d.rows(node.inputs[1])}, Attrs().set(Attr::depth, experts));
  const ValueId by_expert = d.transpose(one_hot, {2, 1, 0});            // [experts, top_k, tokens]
  const ValueId weights = d.transpose(d.rows(node.inputs[2]), {1, 0});  // [top_k, tokens]
  ValueId sum = d.fill(node.name + ".zeros", {tokens, hidden}, d.floats(), 0);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const ValueId number = d.number(static_cast<double>(expert), DType::I64);
    const ValueId chosen = d.add(Op::Gather, {by_expert, number}, axis(0));
    // An expert is at most once among a token's choices.
    const ValueId found = d.add(Op::NonZero, {chosen}, Attrs().set(Attr::most, tokens));
    const auto places = d.split(found, 0, {1, 1});
    const ValueId rows = d.add(Op::Squeeze, {places[1]}, Attrs().set(Attr::axes, Decomposer::Numbers{0}));
    const ValueId mine = d.add(Op::Gather, {x, rows}, axis(0));
    const ValueId gate =
        activate(d, d.add(Op::MatMul, {mine, d.matrix(node.inputs[3], expert)}), node.attrs.i(Attr::act));
    const ValueId up = d.add(Op::MatMul, {mine, d.matrix(node.inputs[4], expert)});
    const ValueId down = d.add(Op::MatMul, {d.add(Op::Mul, {gate, up}), d.matrix(node.inputs[5], expert)});
    const ValueId share = d.add(Op::GatherND, {weights, d.transpose(found, {1, 0})});
    const ValueId weighted = d.add(Op::Mul, {down, d.unsqueeze(share, 1)});
    sum = d.add(Op::ScatterND, {sum, d.unsqueeze(rows, 1), weighted});
  }
  d.set_flat(node.outputs[0], d.reshape(sum, {1, tokens, hidden}));
}

// x: [.., rows, hidden] beside matrices [.., hidden or inner, ..]: what each expert makes of it.
ValueId experts_of(Decomposer& d, const Node& node, ValueId x, ValueId gate, ValueId up, ValueId down) {
  const ValueId gated = activate(d, d.add(Op::MatMul, {x, gate}), node.attrs.i(Attr::act));
  return d.add(Op::MatMul, {d.add(Op::Mul, {gated, d.add(Op::MatMul, {x, up})}), down});
}

// The weights of the chosen: [tokens, top_k, ..].
void gathered_experts(Decomposer& d, const Node& node) {
  const std::int64_t tokens = d.tokens();
  const std::int64_t hidden = d.source().value(node.inputs[0]).cols();
  const std::int64_t chosen = node.attrs.i(Attr::top_k);
  const ValueId ids = d.rows(node.inputs[1]);
  const auto matrices = [&](std::size_t input) {
    return d.transpose(d.add(Op::Gather, {d.weight(node.inputs[input]), ids}, axis(0)), {0, 1, 3, 2});
  };
  const ValueId x = d.reshape(d.rows(node.inputs[0]), {tokens, 1, 1, hidden});
  const ValueId made = experts_of(d, node, x, matrices(3), matrices(4), matrices(5));  // [tokens, top_k, 1, hidden]
  const ValueId shares = d.reshape(d.rows(node.inputs[2]), {tokens, chosen, 1, 1});
  const ValueId sum = d.add(Op::ReduceSum, {d.add(Op::Mul, {made, shares})}, axes({1}, false));
  d.set_rows(node.outputs[0], d.reshape(sum, {tokens, hidden}));
}

// All of them, for all tokens: [experts, tokens, ..].
void all_experts(Decomposer& d, const Node& node) {
  const std::int64_t tokens = d.tokens();
  const std::int64_t experts = d.source().value(node.inputs[3]).weight->shape[0];
  const auto matrices = [&](std::size_t input) {
    const Value& value = d.source().value(node.inputs[input]);
    return d.constant(value.weight, {.transposed = true, .as = d.floats(), .name = value.name + ".T"});
  };
  const ValueId x = d.unsqueeze(d.rows(node.inputs[0]), 0);
  const ValueId made = experts_of(d, node, x, matrices(3), matrices(4), matrices(5));
  const ValueId none = d.fill(fmt::format("no_share[{}x{}]", tokens, experts), {tokens, experts}, d.floats(), 0);
  const ValueId shares = d.add(Op::ScatterElements, {none, d.rows(node.inputs[1]), d.rows(node.inputs[2])}, axis(1));
  const ValueId by_expert = d.unsqueeze(d.transpose(shares, {1, 0}), 2);  // [experts, tokens, 1]
  d.set_rows(node.outputs[0], d.add(Op::ReduceSum, {d.add(Op::Mul, {made, by_expert})}, axes({0}, false)));
}

}  // namespace

void decompose_moe(Decomposer& d, const Node& node) {
  const std::int64_t experts = d.source().value(node.inputs[3]).weight->shape[0];
  if (d.appends()) {
    scattered_experts(d, node);
  } else if (d.tokens() * node.attrs.i(Attr::top_k) < experts) {
    gathered_experts(d, node);
  } else {
    all_experts(d, node);
  }
}

}  // namespace knapsack
