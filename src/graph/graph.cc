#include "graph/graph.h"

#include <utility>

#include "graph/shape.h"

namespace knapsack {
namespace {

// A graph that does not fit together is a mistake of the importer or pass that builds it.
template <class T>
void expect(const Result<T>& result, std::string_view name) {
  if (!result) check_failed(fmt::format("graph '{}': {}", name, result.error().message).c_str(), __FILE__, __LINE__);
}

}  // namespace

ValueId Graph::add(Value value) {
  const auto id = static_cast<ValueId>(values_.size());
  if (value.name.empty() || !ids_.emplace(value.name, id).second)
    check_failed(fmt::format("value name '{}' is new", value.name).c_str(), __FILE__, __LINE__);
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::input(std::string name, DType dtype, std::int64_t cols) {
  CHECK(cols > 0 && (dtype == DType::F32 || dtype == DType::I32));
  return add({.name = std::move(name), .kind = ValueKind::input, .dtype = dtype, .cols = cols});
}

ValueId Graph::constant(std::shared_ptr<const Weight> weight) {
  CHECK(weight != nullptr);
  expect(check_constant(*weight), weight->name);
  if (const ValueId id = find(weight->name); id >= 0 && value(id).weight == weight) return id;
  Value value{.name = weight->name, .kind = ValueKind::constant, .dtype = weight->dtype, .cols = weight->cols()};
  value.weight = std::move(weight);
  return add(std::move(value));
}

ValueId Graph::state(std::string name, std::int64_t cols) {
  CHECK(cols > 0);
  return add({.name = std::move(name), .kind = ValueKind::state, .cols = cols, .state = states_++});
}

ValueId Graph::node(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs) {
  CHECK(op_info(op).outputs == 1);
  return nodes(op, std::move(name), std::move(inputs), std::move(attrs)).front();
}

std::vector<ValueId> Graph::nodes(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<const Value*> in;
  for (const ValueId id : inputs) {
    CHECK(id >= 0 && id < static_cast<ValueId>(values_.size()));
    in.push_back(&value(id));
  }
  auto shapes = infer(op, attrs, in);
  expect(shapes, name);
  std::vector<ValueId> outputs;
  for (Value& output : *shapes) {
    output.name = outputs.empty() ? name : fmt::format("{}.{}", name, outputs.size());
    outputs.push_back(add(std::move(output)));
  }
  nodes_.push_back({op, std::move(name), std::move(attrs), std::move(inputs), outputs});
  return outputs;
}

ValueId Graph::find(std::string_view name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? -1 : it->second;
}

}  // namespace knapsack
