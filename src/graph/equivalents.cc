#include "graph/equivalents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace knapsack {
namespace {

using Numbers = std::vector<std::int64_t>;

struct Row {
  Op op;
  std::string_view by;
};
constexpr std::array rows{
#define KNAP_EQUIVALENT(op, by, how) Row{Op::op, by},
#include "graph/equivalents.inc"
#undef KNAP_EQUIVALENT
};

bool is_float(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

class Writer {
 public:
  Writer(Rewriter& to, const Node& node) : to_(to), node_(node), in_(to.of(node.inputs)) {}

  bool write(std::string_view by) {
    const Value& made = to_.from().value(node_.outputs[0]);
    switch (node_.op) {
      case Op::Split:
        return split();
      case Op::Slice:
        return by == "Split" && slice();
      case Op::Unsqueeze:
      case Op::Squeeze:
        return last(Op::Reshape, {in_[0]}, Attrs().set(Attr::shape, made.dims));
      case Op::Expand:
        return expand(by, made.dims);
      default:
        return is_float(made.type()) && floats(by);
    }
  }

 private:
  bool floats(std::string_view by) {
    switch (node_.op) {
      case Op::Neg:
        return last(Op::Mul, {in_[0], number(-1)});
      case Op::Sub:
        return last(Op::Add, {in_[0], add(Op::Mul, {in_[1], number(-1)})});
      case Op::Div:
        return last(Op::Mul, {in_[0], add(Op::Reciprocal, {in_[1]})});
      case Op::Pow:
        return is_square() && last(Op::Mul, {in_[0], in_[0]});
      case Op::Sqrt:
        return last(Op::Pow, {in_[0], number(0.5F)});
      case Op::ReduceMean:
      case Op::ReduceSum:
        return reduce(by);
      case Op::Softmax:
        return softmax();
      case Op::Sigmoid:
        if (by == "Tanh Mul Add") {
          const ValueId half = add(Op::Mul, {in_[0], number(0.5F)});
          return last(Op::Add, {add(Op::Mul, {add(Op::Tanh, {half}), number(0.5F)}), number(0.5F)});
        }
        return last(Op::Div, {number(1), add(Op::Add, {add(Op::Exp, {add(Op::Neg, {in_[0]})}), number(1)})});
      case Op::Tanh: {
        const ValueId twice = add(Op::Sigmoid, {add(Op::Mul, {in_[0], number(2)})});
        return last(Op::Add, {add(Op::Mul, {twice, number(2)}), number(-1)});
      }
      case Op::Where:
        return where();
      default:
        return false;
    }
  }

  [[nodiscard]] const Value& old(std::size_t input) const { return to_.from().value(node_.inputs[input]); }

  [[nodiscard]] bool is_square() const {
    const Value& v = old(1);
    if (v.kind != ValueKind::constant || v.elements() != 1 || v.weight->slabs.empty() || !is_float(v.dtype))
      return false;
    float power = 0;
    format(v.dtype).decode(v.weight->slab(0), &power, 1);
    return power == 2 && to_.from().value(node_.outputs[0]).dims == old(0).dims;
  }

  [[nodiscard]] std::int64_t reduced() const {
    std::int64_t n = 1;
    for (const std::int64_t axis : node_.attrs.list(Attr::axes)) n *= old(0).dims[static_cast<std::size_t>(axis)];
    return n;
  }

  bool reduce(std::string_view by) {
    const float share = node_.op == Op::ReduceMean ? 1.0F / static_cast<float>(reduced()) : 1.0F;
    if (by == "ReduceSum Mul") return last(Op::Mul, {add(Op::ReduceSum, {in_[0]}, node_.attrs), number(share)});
    // A product with a column: of the last axis, which stays as one of 1.
    const auto axes = node_.attrs.list(Attr::axes);
    const std::int64_t rank = std::ssize(old(0).dims);
    if (axes.size() != 1 || axes[0] != rank - 1 || rank < 2 || node_.attrs.i(Attr::keepdims) == 0) return false;
    const std::vector<float> column(static_cast<std::size_t>(reduced()), share);
    return last(Op::MatMul, {in_[0], to_.to().constant(f32_weight(unique("column"), {reduced(), 1}, column))});
  }

  bool softmax() {
    const Attrs along = Attrs().set(Attr::axes, Numbers{node_.attrs.i(Attr::axis)}).set(Attr::keepdims, 1);
    const ValueId exps = add(Op::Exp, {add(Op::Sub, {in_[0], add(Op::ReduceMax, {in_[0]}, along)})});
    return last(Op::Div, {exps, add(Op::ReduceSum, {exps}, along)});
  }

  // a * mask + b * (1 - mask): of what is finite.
  bool where() {
    for (const std::size_t side : {1U, 2U}) {
      const Value& v = old(side);
      if (v.kind != ValueKind::constant) continue;
      if (v.weight->slabs.size() != 1 || !is_float(v.dtype)) return false;
      std::vector<float> values(static_cast<std::size_t>(v.elements()));
      format(v.dtype).decode(v.weight->slab(0), values.data(), v.elements());
      if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) return false;
    }
    const auto type = static_cast<std::int64_t>(to_.from().value(node_.outputs[0]).type());
    const ValueId mask = add(Op::Cast, {in_[0]}, Attrs().set(Attr::to, type));
    const ValueId other = add(Op::Add, {add(Op::Mul, {mask, number(-1)}), number(1)});
    return last(Op::Add, {add(Op::Mul, {in_[1], mask}), add(Op::Mul, {in_[2], other})});
  }

  bool split() {
    const std::int64_t axis = node_.attrs.i(Attr::axis);
    std::int64_t begin = 0;
    for (const ValueId id : node_.outputs) {
      const Value& part = to_.from().value(id);
      const std::int64_t end = begin + part.dims[static_cast<std::size_t>(axis)];
      const ValueId made = to_.to().node(Op::Slice, to_.unique(part.name), {in_[0]}, slice_of(axis, begin, end));
      take_provenance(to_.to().last(), node_);
      to_.replace(id, made);
      begin = end;
    }
    return true;
  }

  bool slice() {
    const auto axes = node_.attrs.list(Attr::axes);
    const auto steps = node_.attrs.list(Attr::steps);
    if (axes.size() != 1 || (!steps.empty() && steps[0] != 1)) return false;
    const std::int64_t size = old(0).dims[static_cast<std::size_t>(axes[0])];
    const std::int64_t begin = node_.attrs.list(Attr::starts)[0];
    const std::int64_t end = begin + to_.from().value(node_.outputs[0]).dims[static_cast<std::size_t>(axes[0])];
    Numbers sizes;
    std::vector<std::string> names;
    const auto part = [&](std::int64_t count, std::string name) {
      if (count == 0) return;
      sizes.push_back(count);
      names.push_back(std::move(name));
    };
    const std::size_t wanted = begin > 0 ? 1 : 0;
    part(begin, unique("before"));
    part(end - begin, to_.unique(node_.name));
    part(size - end, unique("after"));
    if (sizes.size() < 2) return false;
    const auto made = to_.to().nodes(Op::Split, std::move(names), {in_[0]},
                                     Attrs().set(Attr::axis, axes[0]).set(Attr::splits, std::move(sizes)));
    take_provenance(to_.to().last(), node_);
    to_.replace(node_.outputs[0], made[wanted]);
    return true;
  }

  bool expand(std::string_view by, const Numbers& dims) {
    constexpr std::int64_t most = std::int64_t{1} << 20;  // ones
    constexpr std::int64_t most_times = 64;
    const Numbers& from = old(0).dims;
    if (by == "Mul") {
      std::int64_t elements = 1;
      for (const std::int64_t d : dims) elements *= d;
      if (elements > most || !is_float(old(0).type())) return false;
      const std::vector<float> ones(static_cast<std::size_t>(elements), 1);
      return last(Op::Mul, {in_[0], to_.to().constant(f32_weight(unique("ones"), dims, ones))});
    }
    if (from.size() != dims.size()) return false;
    Numbers times;
    std::int64_t grown = 0;
    std::int64_t axis = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      times.push_back(dims[i] / from[i]);
      if (times.back() == 1) continue;
      ++grown;
      axis = static_cast<std::int64_t>(i);
    }
    if (by == "Tile") return last(Op::Tile, {in_[0]}, Attrs().set(Attr::shape, std::move(times)));
    const std::int64_t count = times.empty() ? 1 : times[static_cast<std::size_t>(axis)];
    if (grown != 1 || count > most_times) return false;
    return last(Op::Concat, std::vector<ValueId>(static_cast<std::size_t>(count), in_[0]),
                Attrs().set(Attr::axis, axis));
  }

  static Attrs slice_of(std::int64_t axis, std::int64_t begin, std::int64_t end) {
    return Attrs().set(Attr::axes, Numbers{axis}).set(Attr::starts, Numbers{begin}).set(Attr::ends, Numbers{end});
  }

  [[nodiscard]] std::string unique(std::string_view part) const {
    return to_.fresh(fmt::format("{}/{}", node_.name, part));
  }
  ValueId number(float value) {
    const std::string name = fmt::format("number {}", value);
    if (const ValueId known = to_.to().find(name); known >= 0) return known;
    return to_.to().constant(f32_weight(name, {}, {value}));
  }
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const ValueId made = to_.to().node(op, unique(op_info(op).text), std::move(inputs), std::move(attrs));
    take_provenance(to_.to().last(), node_);
    return made;
  }
  bool last(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    to_.replace(node_.outputs[0], to_.node(node_, op, std::move(inputs), std::move(attrs)));
    return true;
  }

  Rewriter& to_;
  const Node& node_;
  std::vector<ValueId> in_;
};

}  // namespace

bool write_equivalent(Rewriter& to, const Node& node, std::string_view by) {
  const bool known =
      std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.op == node.op && row.by == by; });
  return known && Writer(to, node).write(by);
}

}  // namespace knapsack
