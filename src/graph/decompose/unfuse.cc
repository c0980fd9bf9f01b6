#include "graph/decompose/unfuse.h"

#include <fmt/format.h>

#include "graph/rewrite.h"

namespace knapsack {
namespace {

// Rows [begin, begin + count) of a weight, as one of its own.
std::shared_ptr<const Weight> rows_of(const Weight& w, std::int64_t begin, std::int64_t count) {
  Weight part = w;
  if (w.slabs.empty()) {
    part.shape[0] = count;
  } else {
    part = w.rows(begin, count);
  }
  part.name = fmt::format("{}[{}:{}]", w.name, begin, begin + count);
  return std::make_shared<const Weight>(std::move(part));
}

class Parts {
 public:
  Parts(Rewriter& to, const Node& node) : to_(to), node_(node) {}

  void fused_linear() {
    const Attrs& a = node_.attrs;
    const auto in = to_.of(node_.inputs);
    std::size_t next = 2;
    ValueId x = in[0];
    if (a.i(Attr::norm) != 0)
      x = add(Op::rms_norm, "norm", {x, in[next++]},
              Attrs().set(Attr::eps, a.f(Attr::eps)).set(Attr::offset, a.f(Attr::offset)));
    const bool biased = a.i(Attr::bias) != 0;
    const std::size_t bias = biased ? next++ : 0;
    ValueId out = -1;
    if (a.has(Attr::act)) {
      const std::int64_t half = to_.to().value(in[1]).dims[0] / 2;
      const auto product = [&](std::string_view name, std::int64_t begin) {
        std::vector<ValueId> inputs{x, to_.to().constant(rows_of(*to_.to().value(in[1]).weight, begin, half))};
        if (biased) inputs.push_back(to_.to().constant(rows_of(*to_.to().value(in[bias]).weight, begin, half)));
        return add(Op::linear, name, std::move(inputs), {});
      };
      const ValueId gate = product("gate", 0);
      const ValueId up = product("up", half);
      out = add(Op::gated_act, "act", {gate, up}, Attrs().set(Attr::act, a.i(Attr::act)));
    } else {
      std::vector<ValueId> inputs{x, in[1]};
      if (biased) inputs.push_back(in[bias]);
      out = add(Op::linear, "linear", std::move(inputs), {});
    }
    if (a.i(Attr::residual) != 0) out = add(Op::add, "add", {out, in[next]}, {});
    to_.replace(node_.outputs[0], out);
  }

 private:
  ValueId add(Op op, std::string_view part, std::vector<ValueId> inputs, Attrs attrs) {
    const ValueId made =
        to_.to().node(op, to_.unique(fmt::format("{}/{}", node_.name, part)), std::move(inputs), std::move(attrs));
    Node& last = to_.to().last();
    last.origin = node_.origin.empty() ? node_.name : node_.origin;
    last.origin_op = node_.origin.empty() ? node_.op : node_.origin_op;
    last.unit = node_.unit;
    return made;
  }
  Rewriter& to_;
  const Node& node_;
};

}  // namespace

Graph unfuse(const Graph& graph, const std::function<bool(const Node&)>& which) {
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    if (is_fused(node.op) && (which == nullptr || which(node))) {
      Parts(to, node).fused_linear();
    } else {
      to.copy(node);
    }
  }
  return to.finish();
}

}  // namespace knapsack
