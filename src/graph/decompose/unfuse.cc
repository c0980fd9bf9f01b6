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

bool has_factor(const Node& node) { return node.op == Op::MatMul && node.attrs.f(Attr::alpha, 1) != 1; }

class Parts {
 public:
  Parts(Rewriter& to, const Node& node) : to_(to), node_(node) {}

  void take_apart() {
    if (node_.op == Op::fused_linear) {
      fused_linear();
    } else if (node_.op == Op::kv_read) {
      const ValueId rows = add(Op::kv_read, "rows", to_.of(node_.inputs), without(node_.attrs, {Attr::transposed}));
      last(Op::Transpose, {rows}, Attrs().set(Attr::perm, std::vector<std::int64_t>{0, 1, 3, 2}));
    } else {
      primitive();
    }
  }

  // The product of planes of channels, then its activation. A factor goes to the left side: of queries and keys that is
  // the smaller, and the product of halves stays as small.
  void primitive() {
    auto in = to_.of(node_.inputs);
    const Attrs& a = node_.attrs;
    const std::int64_t block = a.i(Attr::block);
    if (block > 0) in[0] = planes(in[0]);
    if (has_factor(node_)) {
      const std::string name = to_.fresh(fmt::format("{}/alpha", node_.name));
      in[0] = add(Op::Mul, "scaled", {in[0], to_.to().constant(f32_weight(name, {}, {a.f(Attr::alpha)}))}, {});
    }
    const bool clamped = a.has(Attr::low) || a.has(Attr::high);
    Attrs product =
        node_.op == Op::MatMul ? without(a, {Attr::alpha}) : without(a, {Attr::low, Attr::high, Attr::block});
    if (!clamped && block == 0) return last(node_.op, std::move(in), std::move(product));
    ValueId out = add(node_.op, op_info(node_.op).text, std::move(in), std::move(product));
    if (clamped) {
      const bool relu = a.has(Attr::low) && a.f(Attr::low) == 0 && !a.has(Attr::high);
      Attrs bounds;
      for (const Attr key : {Attr::low, Attr::high})
        if (a.has(key) && !relu) bounds.set(key, a.f(key));
      const Op op = relu ? Op::Relu : Op::Clip;
      if (block == 0) return last(op, {out}, std::move(bounds));
      out = add(op, op_info(op).text, {out}, std::move(bounds));
    }
    blocks(out, block);
  }

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
  using Numbers = std::vector<std::int64_t>;

  // [N, C / b, .., b] -> [N, C, ..]
  ValueId planes(ValueId x) {
    const Numbers dims = to_.to().value(x).dims;
    const auto rank = static_cast<std::int64_t>(dims.size());
    Numbers perm{0, 1, rank - 1};
    Numbers shape{dims[0], dims[1] * dims.back()};
    for (std::int64_t i = 2; i + 1 < rank; ++i) {
      perm.push_back(i);
      shape.push_back(dims[static_cast<std::size_t>(i)]);
    }
    x = add(Op::Transpose, "planes", {x}, Attrs().set(Attr::perm, std::move(perm)));
    return add(Op::Reshape, "channels", {x}, Attrs().set(Attr::shape, std::move(shape)));
  }
  void blocks(ValueId x, std::int64_t block) {
    const Numbers dims = to_.to().value(x).dims;
    Numbers shape{dims[0], dims[1] / block, block};
    shape.insert(shape.end(), dims.begin() + 2, dims.end());
    Numbers perm{0, 1};
    for (std::int64_t i = 3; i < std::ssize(shape); ++i) perm.push_back(i);
    perm.push_back(2);
    x = add(Op::Reshape, "blocks", {x}, Attrs().set(Attr::shape, std::move(shape)));
    last(Op::Transpose, {x}, Attrs().set(Attr::perm, std::move(perm)));
  }

  // The one that makes what the node made, by its name.
  void last(Op op, std::vector<ValueId> inputs, Attrs attrs) {
    to_.replace(node_.outputs[0], to_.node(node_, op, std::move(inputs), std::move(attrs)));
  }

  ValueId add(Op op, std::string_view part, std::vector<ValueId> inputs, Attrs attrs) {
    const ValueId made =
        to_.to().node(op, to_.fresh(fmt::format("{}/{}", node_.name, part)), std::move(inputs), std::move(attrs));
    Node& part_of_it = to_.to().last();
    part_of_it.origin = node_.origin.empty() ? node_.name : node_.origin;
    part_of_it.origin_op = node_.origin.empty() ? node_.op : node_.origin_op;
    part_of_it.purpose = node_.purpose;
    part_of_it.unit = node_.unit;
    return made;
  }
  Rewriter& to_;
  const Node& node_;
};

}  // namespace

bool is_fused(const Node& node) {
  const Attrs& a = node.attrs;
  switch (node.op) {
    case Op::fused_linear:
      return true;
    case Op::kv_read:
      return a.i(Attr::transposed) != 0;
    case Op::MatMul:
      return has_factor(node);
    case Op::Gemm:
    case Op::Conv:
    case Op::MaxPool:
    case Op::AveragePool:
    case Op::GlobalAveragePool:
      return a.has(Attr::low) || a.has(Attr::high) || a.has(Attr::block);
    default:
      return false;
  }
}

Graph unfuse(const Graph& graph, const std::function<bool(const Node&)>& which) {
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    if (is_fused(node) && (which == nullptr || which(node))) {
      Parts(to, node).take_apart();
    } else {
      to.copy(node);
    }
  }
  return to.finish();
}

}  // namespace knapsack
