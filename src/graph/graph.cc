#include "graph/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/layer_name.h"
#include "graph/shape.h"

namespace knapsack {
namespace {

// A graph that does not fit together is a mistake of the importer or pass that builds it.
template <class T>
void expect(const Result<T>& result, std::string_view name) {
  if (!result) check_failed(fmt::format("graph '{}': {}", name, result.error().message).c_str(), __FILE__, __LINE__);
}

struct StageInfo {
  Stage stage;
  std::string_view name, text;
};
constexpr auto stages = std::to_array<StageInfo>({
#define KNAP_STAGE(id, text, what) {Stage::id, text, what},
#include "graph/stages.inc"
#undef KNAP_STAGE
});

}  // namespace

std::string_view stage_name(Stage stage) { return stages[static_cast<std::size_t>(stage)].name; }
std::string_view stage_text(Stage stage) { return stages[static_cast<std::size_t>(stage)].text; }
std::optional<Stage> stage_from_name(std::string_view name) {
  for (const StageInfo& info : stages)
    if (info.name == name) return info.stage;
  return std::nullopt;
}
std::vector<std::string_view> stage_names() {
  std::vector<std::string_view> names;
  names.reserve(stages.size());
  for (const StageInfo& info : stages) names.push_back(info.name);
  return names;
}

std::string_view purpose_name(Purpose purpose) {
  constexpr std::array<std::string_view, 7> names{"plain",        "rope_table", "mask",     "kv_append",
                                                  "repeat_heads", "embedding",  "latent_up"};
  return names[static_cast<std::size_t>(purpose)];
}

std::int64_t Node::layer() const { return layer_of(origin.empty() ? name : origin); }

ValueId Graph::add(Value value) {
  const auto id = static_cast<ValueId>(values_.size());
  if (value.name.empty() || !ids_.emplace(value.name, id).second)
    check_failed(fmt::format("value name '{}' is new", value.name).c_str(), __FILE__, __LINE__);
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::input(std::string name, DType dtype, std::vector<std::int64_t> dims) {
  expect(check_dims(dims), name);
  CHECK(format(dtype).block == 1);
  return add({.name = std::move(name), .kind = ValueKind::input, .dtype = dtype, .dims = std::move(dims)});
}

ValueId Graph::constant(std::shared_ptr<const Weight> weight, ConstantView view) {
  CHECK(weight != nullptr);
  expect(check_constant(*weight), weight->name);
  std::string name = view.name.empty() ? weight->name + (view.transposed ? ".T" : "") : std::move(view.name);
  for (ValueId id = find(name); id >= 0; id = find(name)) {
    const Value& known = value(id);
    if (known.weight == weight && known.transposed == view.transposed && known.as == view.as && known.line == view.line)
      return id;
    if (known.weight != weight) break;
    // Seen in two ways.
    name += view.transposed != known.transposed ? (view.transposed ? ".T" : ".rows")
            : view.as != known.as && view.as    ? fmt::format(".{}", knapsack::name(*view.as))
            : view.line != known.line           ? fmt::format(".lines{}", view.line)
                                                : ".stored";
  }
  Value made{.name = std::move(name), .kind = ValueKind::constant, .dtype = weight->dtype};
  made.dims = seen_dims(*weight, view.transposed);
  made.transposed = view.transposed;
  made.as = view.as;
  made.line = view.line;
  made.weight = std::move(weight);
  return add(std::move(made));
}

ValueId Graph::state(std::string name, std::int64_t cols, std::optional<std::int64_t> ctx, bool channel_first) {
  CHECK(cols > 0 && ctx.value_or(1) > 0);
  std::vector<std::int64_t> dims{cols};
  if (ctx) dims.insert(dims.begin(), *ctx);
  return add({.name = std::move(name),
              .kind = ValueKind::state,
              .dims = std::move(dims),
              .channel_first = channel_first,
              .state = states_++});
}

ValueId Graph::node(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs) {
  const auto outputs = nodes(op, std::move(name), std::move(inputs), std::move(attrs));
  CHECK(outputs.size() == 1);
  return outputs.front();
}

std::vector<ValueId> Graph::nodes(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs) {
  return nodes(op, std::vector{std::move(name)}, std::move(inputs), std::move(attrs));
}

std::vector<ValueId> Graph::nodes(Op op, std::vector<std::string> names, std::vector<ValueId> inputs, Attrs attrs) {
  const std::string& name = names.front();
  std::vector<const Value*> in;
  in.reserve(inputs.size());
  for (const ValueId id : inputs) {
    CHECK(id >= 0 && id < static_cast<ValueId>(values_.size()));
    in.push_back(&value(id));
  }
  auto shapes = infer(op, attrs, in);
  expect(shapes, name);
  std::vector<ValueId> outputs;
  CHECK(names.size() == 1 || names.size() == shapes->size());
  for (Value& output : *shapes) {
    output.name = outputs.size() < names.size() ? names[outputs.size()] : fmt::format("{}.{}", name, outputs.size());
    outputs.push_back(add(std::move(output)));
  }
  Node node;
  node.op = op;
  node.name = std::move(names.front());
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  node.outputs = outputs;
  nodes_.push_back(std::move(node));
  return outputs;
}

void Graph::set_quantization(ValueId id, Quantization quant) {
  CHECK(id >= 0 && id < static_cast<ValueId>(values_.size()));
  values_[static_cast<std::size_t>(id)].quant = quant;
}

ValueId Graph::find(std::string_view name) const {
  const auto it = ids_.find(name);
  return it == ids_.end() ? -1 : it->second;
}

std::optional<std::int64_t> Graph::tokens() const {
  const bool decodes =
      states_ > 0 || std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.op == Op::embed; });
  if (!decodes) return std::nullopt;
  for (const Value& v : values_)
    if (v.kind == ValueKind::input) return v.rows();
  return std::nullopt;
}

}  // namespace knapsack
