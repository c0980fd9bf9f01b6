// Plants faults: a graph copied with some of its nodes changed, and a source one of whose nodes computes something
// else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "align/source.h"
#include "graph/graph.h"
#include "import/checkpoint.h"

namespace knapsack::testing {

// May change the op, the attributes and the inputs (ids of the new graph) of a node before it is made.
using Edit = std::function<void(Node& node, Graph& graph)>;

inline Graph edited(const Graph& from, const Edit& edit) {
  Graph to;
  std::vector<ValueId> at(from.values().size(), -1);
  std::map<ValueId, const Node*> makers;
  for (const Node& node : from.list()) makers[node.outputs.front()] = &node;
  for (std::size_t i = 0; i < from.values().size(); ++i) {
    const Value& value = from.values()[i];
    if (at[i] >= 0) continue;
    if (value.kind == ValueKind::input) at[i] = to.input(value.name, value.dtype, value.dims);
    if (value.kind == ValueKind::constant) at[i] = to.constant(value.weight);
    if (value.kind == ValueKind::state) at[i] = to.state(value.name, value.cols());
    if (at[i] >= 0) continue;
    Node node = *makers.at(static_cast<ValueId>(i));
    for (ValueId& input : node.inputs) input = at[static_cast<std::size_t>(input)];
    const std::vector<ValueId> outputs = node.outputs;
    edit(node, to);
    const auto made = to.nodes(node.op, node.name, node.inputs, node.attrs);
    for (std::size_t j = 0; j < made.size(); ++j) at[static_cast<std::size_t>(outputs[j])] = made[j];
  }
  to.set_output(at[static_cast<std::size_t>(from.output())]);
  return to;
}

template <class T>
Attrs with(const Attrs& attrs, Attr key, T value) {
  Attrs out;
  for (const Attrs::Entry& entry : attrs.entries()) {
    if (entry.key == key) continue;
    if (attr_kind(entry.key) == AttrKind::number) {
      out.set(entry.key, entry.f);
    } else {
      out.set(entry.key, entry.i);
    }
  }
  out.set(key, value);
  return out;
}

// Replaces an input that is a constant by one with other numbers.
inline void alter(Node& node, Graph& graph, std::size_t input, const std::function<void(std::vector<float>&)>& change) {
  const std::shared_ptr<const Weight> weight = graph.value(node.inputs[input]).weight;
  std::vector<float> values = decoded(*weight);
  change(values);
  node.inputs[input] = graph.constant(f32_weight(weight->name + ".planted." + node.name, weight->shape, values));
}

using Values = std::map<std::string, std::vector<float>, std::less<>>;
// Writes what node computes now; `values` are those visited before, of this step.
using Fault = std::function<void(const Values& values, std::int64_t rows, std::int64_t cols, float* data)>;

// Another source, of which run() makes something else.
class Wrapped : public Source {
 public:
  explicit Wrapped(std::unique_ptr<Source> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const std::string& label() const override { return inner_->label(); }
  [[nodiscard]] std::span<const SourceNode> nodes() const override { return inner_->nodes(); }
  [[nodiscard]] std::span<const SourceChoice> choices() const override { return inner_->choices(); }
  [[nodiscard]] std::string how() const override { return inner_->how(); }
  [[nodiscard]] std::int64_t vocab() const override { return inner_->vocab(); }
  [[nodiscard]] std::int64_t longest() const override { return inner_->longest(); }
  [[nodiscard]] std::int64_t rows() const override { return inner_->rows(); }
  [[nodiscard]] bool replays() const override { return true; }

 protected:
  [[nodiscard]] Source& inner() { return *inner_; }

 private:
  std::unique_ptr<Source> inner_;
};

class Planted final : public Wrapped {
 public:
  Planted(std::unique_ptr<Source> inner, std::string node, Fault fault)
      : Wrapped(std::move(inner)), node_(std::move(node)), fault_(std::move(fault)) {}
  Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane lane, const Visit& visit) override {
    Values values;
    const auto change = [&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
      if (name == node_) fault_(values, rows, cols, data);
      visit.values(name, rows, cols, data);
      values[std::string(name)] = {data, data + rows * cols};
    };
    return inner().run(ids, first, lane, {.values = change, .choices = visit.choices});
  }

 private:
  std::string node_;
  Fault fault_;
};

}  // namespace knapsack::testing
