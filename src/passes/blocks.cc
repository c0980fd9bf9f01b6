#include "passes/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "graph/rewrite.h"

namespace knapsack {
namespace {

using Numbers = std::vector<std::int64_t>;

bool by_element(Op op) {
  switch (op) {
    case Op::Relu:
    case Op::Clip:
    case Op::LeakyRelu:
    case Op::Elu:
    case Op::Sigmoid:
    case Op::HardSigmoid:
    case Op::HardSwish:
    case Op::Tanh:
    case Op::Gelu:
    case Op::Neg:
    case Op::Abs:
    case Op::Sqrt:
    case Op::Exp:
    case Op::Softplus:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Max:
    case Op::Min:
      return true;
    default:
      return false;
  }
}

bool slides(Op op) {
  return op == Op::Conv || op == Op::MaxPool || op == Op::AveragePool || op == Op::GlobalAveragePool;
}

class Blocker {
 public:
  Blocker(const Graph& graph, std::int64_t block, bool data)
      : graph_(graph), uses_(graph), block_(block), data_(data), to_(graph) {}

  Graph run() {
    for (const Node& node : graph_.list()) {
      const bool goes = slides(node.op) ? can_slide(node) : by_element(node.op) && can_stay(node);
      if (goes) {
        write(node);
        continue;
      }
      for (const ValueId id : node.inputs) plain(id, node);
      to_.copy(node);
    }
    return to_.finish();
  }

 private:
  [[nodiscard]] const Numbers& dims(ValueId id) const { return graph_.value(id).dims; }
  [[nodiscard]] bool whole(ValueId id) const {
    const Numbers& d = dims(id);
    return d.size() >= 3 && d.size() <= 5 && d[1] % block_ == 0;
  }
  [[nodiscard]] bool computed(ValueId id) const { return graph_.value(id).kind != ValueKind::constant; }

  [[nodiscard]] bool can_slide(const Node& node) const {
    if (!computed(node.inputs[0]) || node.attrs.has(Attr::block) || !whole(node.outputs[0])) return false;
    if (node.op != Op::Conv) return whole(node.inputs[0]);
    for (std::size_t i = 1; i < node.inputs.size(); ++i)
      if (computed(node.inputs[i])) return false;
    return whole(node.inputs[0]) || can_pad(node);
  }

  // Of the first one's three channels: more of them, of zeros.
  [[nodiscard]] bool can_pad(const Node& conv) const {
    const Value& w = graph_.value(conv.inputs[1]);
    const Numbers& d = dims(conv.inputs[0]);
    return d.size() >= 3 && d.size() <= 5 && conv.attrs.i(Attr::group, 1) == 1 && !w.transposed && !w.as &&
           format(w.dtype).block == 1 && (!data_ || w.weight->slabs.size() == 1);
  }

  // Element by element: something it reads is in blocks, and the rest can be: values of all channels, of one
  // place each or all, or numbers.
  [[nodiscard]] bool can_stay(const Node& node) const {
    const bool some =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return blocked_.count(id) > 0; });
    return some && whole(node.outputs[0]) && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
             const Numbers& d = dims(id);
             if (graph_.value(id).elements() == 1) return !computed(id) && d.size() < 2;
             return computed(id) && d.size() == dims(node.outputs[0]).size() && d[1] == dims(node.outputs[0])[1];
           });
  }

  void write(const Node& node) {
    std::vector<ValueId> in;
    Attrs attrs = node.attrs;
    if (node.op == Op::Conv) {
      in = {in_blocks(node.inputs[0], node), weight(node)};
      if (node.inputs.size() > 2) in.push_back(to_.of(node.inputs[2]));
    } else {
      for (const ValueId id : node.inputs) in.push_back(computed(id) ? in_blocks(id, node) : to_.of(id));
    }
    if (slides(node.op)) attrs.set(Attr::block, block_);
    // A result of the graph keeps its name: what is in blocks has another one.
    const ValueId old = node.outputs[0];
    const bool output = uses_.output[static_cast<std::size_t>(old)];
    blocked_[old] =
        to_.to().node(node.op, output ? to_.fresh(node.name + "/blocked") : node.name, std::move(in), std::move(attrs));
    take_provenance(to_.to().last(), node);
    if (output) plain(old, node);
  }

  ValueId add(const Node& near, Op op, std::string name, ValueId x, Attrs attrs) {
    const ValueId made = to_.to().node(op, std::move(name), {x}, std::move(attrs));
    to_.to().last().unit = near.unit;
    return made;
  }

  // [N, C, ..] -> [N, C / b, .., b], once for all who read it.
  ValueId in_blocks(ValueId old, const Node& near) {
    if (const auto known = blocked_.find(old); known != blocked_.end()) return known->second;
    const std::string& name = graph_.value(old).name;
    ValueId x = to_.of(old);
    Numbers d = dims(old);
    if (const std::int64_t rest = d[1] % block_; rest != 0) {
      Numbers pads(2 * d.size(), 0);
      pads[d.size() + 1] = block_ - rest;
      d[1] += block_ - rest;
      x = add(near, Op::Pad, to_.fresh(name + "/padded"), x, Attrs().set(Attr::pads, std::move(pads)));
    }
    Numbers shape{d[0], d[1] / block_, block_};
    shape.insert(shape.end(), d.begin() + 2, d.end());
    Numbers perm{0, 1};
    for (std::int64_t i = 3; i < std::ssize(shape); ++i) perm.push_back(i);
    perm.push_back(2);
    x = add(near, Op::Reshape, to_.fresh(name + "/blocks"), x, Attrs().set(Attr::shape, std::move(shape)));
    x = add(near, Op::Transpose, to_.fresh(name + "/in_blocks"), x, Attrs().set(Attr::perm, std::move(perm)));
    return blocked_[old] = x;
  }

  // The way back, where somebody asks for planes.
  void plain(ValueId old, const Node& near) {
    const auto known = blocked_.find(old);
    if (known == blocked_.end() || to_.has(old)) return;
    const std::string& name = graph_.value(old).name;
    const Numbers& d = dims(old);
    Numbers perm{0, 1, std::ssize(d)};
    for (std::int64_t i = 2; i < std::ssize(d); ++i) perm.push_back(i);
    const ValueId x =
        add(near, Op::Transpose, to_.fresh(name + "/planes"), known->second, Attrs().set(Attr::perm, std::move(perm)));
    const bool output = uses_.output[static_cast<std::size_t>(old)];
    to_.replace(old,
                add(near, Op::Reshape, output ? name : to_.fresh(name + "/channels"), x, Attrs().set(Attr::shape, d)));
  }

  // Of as many input channels as there are with those that fill the last block.
  ValueId weight(const Node& conv) {
    const ValueId old = conv.inputs[1];
    const std::int64_t channels = dims(conv.inputs[0])[1];
    const Weight& w = *graph_.value(old).weight;
    if (channels % block_ == 0) return to_.of(old);
    if (const auto known = padded_.find(old); known != padded_.end()) return known->second;
    const std::int64_t wide = (channels + block_ - 1) / block_ * block_;
    Numbers shape = w.shape;
    shape[1] = wide;
    const std::string name = to_.fresh(w.name + ".padded");
    if (w.slabs.empty() || !data_) {
      auto only_shape = std::make_shared<Weight>();
      only_shape->name = name;
      only_shape->dtype = w.dtype;
      only_shape->shape = std::move(shape);
      return padded_[old] = to_.to().constant(std::move(only_shape));
    }
    const std::int64_t from = w.bytes() / w.shape[0];
    const std::int64_t each = from / channels * wide;
    std::vector<std::byte> bytes(static_cast<std::size_t>(each * w.shape[0]));
    for (std::int64_t m = 0; m < w.shape[0]; ++m)
      std::memcpy(bytes.data() + m * each, w.slabs[0] + m * from, static_cast<std::size_t>(from));
    return padded_[old] = to_.to().constant(owned_weight(name, w.dtype, std::move(shape), std::move(bytes)));
  }

  const Graph& graph_;
  const Uses uses_;
  std::int64_t block_;
  bool data_;
  Rewriter to_;
  std::map<ValueId, ValueId> blocked_;  // by the old graph's
  std::map<ValueId, ValueId> padded_;   // weights
};

}  // namespace

Graph in_blocks(const Graph& graph, std::int64_t block, bool data) { return Blocker(graph, block, data).run(); }

}  // namespace knapsack
