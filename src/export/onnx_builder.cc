#include "export/onnx_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "graph/decompose/unfuse.h"

namespace knapsack {
namespace {

// "layers.3.kv.k" -> "3.key"
std::string state_suffix(const Value& state) {
  constexpr std::string_view front = "layers.";
  const std::string& name = state.name;
  const auto dot = name.find('.', front.size());
  if (!name.starts_with(front) || dot == std::string::npos) return name;
  const std::string layer = name.substr(front.size(), dot - front.size());
  const std::string kind = name.substr(name.rfind('.') + 1);
  return fmt::format("{}.{}", layer, kind == "k" ? "key" : kind == "v" ? "value" : kind);
}

std::vector<OnnxDim> fixed(const std::vector<std::int64_t>& dims) {
  std::vector<OnnxDim> out;
  out.reserve(dims.size());
  for (const std::int64_t d : dims) out.push_back({.number = d});
  return out;
}

OnnxValue onnx_value(std::string name, OnnxType type, const std::vector<std::int64_t>& dims) {
  return {.name = std::move(name), .type = type, .shape = fixed(dims)};
}

std::int64_t product(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

constexpr std::int64_t ir_version_17 = 8;
constexpr std::int64_t ir_version_21 = 10;

}  // namespace

OnnxType onnx_type(DType type) {
  switch (type) {
    case DType::F32:
      return OnnxType::f32;
    case DType::F16:
      return OnnxType::f16;
    case DType::BF16:
      return OnnxType::bf16;
    case DType::F64:
      return OnnxType::f64;
    case DType::I64:
      return OnnxType::i64;
    case DType::I32:
      return OnnxType::i32;
    case DType::I16:
      return OnnxType::i16;
    case DType::I8:
      return OnnxType::i8;
    case DType::BOOL:
      return OnnxType::boolean;
    default:
      return OnnxType::undefined;
  }
}

OnnxBuilder::OnnxBuilder(const Graph& graph, const OnnxForm& form) : graph_(graph), form_(form) {
  makers_.resize(graph.values().size());
  made_.resize(graph.values().size());
  for (const Node& node : graph.list())
    for (const ValueId id : node.outputs) makers_[index(id)] = &node;
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::constant && !v.transposed && !v.weight->slabs.empty())
      as_stored_.emplace(v.weight->slabs.front(), v.weight->shape);
}

std::string OnnxBuilder::unique(const std::string& name) {
  std::string made = name;
  for (int i = 1; !names_.insert(made).second; ++i) made = fmt::format("{}_{}", name, i);
  return made;
}

OnnxType OnnxBuilder::type(ValueId id) const {
  if (!made_[index(id)].name.empty()) return made_[index(id)].type;
  const OnnxType plain = onnx_type(value(id).type());
  return plain == OnnxType::undefined ? floats() : plain;
}

void OnnxBuilder::hold(ValueId id, std::string name, OnnxType type, Dims dims) {
  made_[index(id)] = {std::move(name), type, std::move(dims)};
}

void OnnxBuilder::hold_constant(ValueId id) {
  const Value& v = value(id);
  if (v.kind != ValueKind::constant || !made_[index(id)].name.empty()) return;
  const OnnxType type = this->type(id);
  hold(id, weight(id, type, v.transposed), type, v.dims);
}

void OnnxBuilder::hold_as(ValueId id, ValueId other) {
  hold_constant(other);
  made_[index(id)] = made_[index(other)];
}

std::string OnnxBuilder::reshaped(ValueId id, const Dims& dims) {
  hold_constant(id);
  const Value& v = value(id);
  const Made made = made_[index(id)];
  CHECK(!made.name.empty() && product(made.dims) == product(dims));
  if (made.dims == dims) return made.name;
  if (const auto known = reshapes_.find({made.name, dims}); known != reshapes_.end()) return known->second;
  // Named as the Reshape that the graph has, if it has one.
  const bool ours = maker(id) != nullptr && maker(id)->op == Op::Reshape && dims == v.dims && !names_.contains(v.name);
  std::string name =
      part(ours ? v.name : made.name + "/Reshape", "Reshape", {made.name, integers(dims)}, {}, made.type, dims);
  reshapes_.emplace(std::pair{made.name, dims}, name);
  return name;
}

OnnxBuilder::Names OnnxBuilder::ins(const Node& node) {
  Names names;
  names.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) names.push_back(in(id));
  return names;
}

ValueId OnnxBuilder::source(ValueId id) const {
  for (const Node* node = maker(id); node != nullptr; node = maker(id)) {
    const bool cast = node->op == Op::Cast && form_.floats != DType::F32 && value(id).type() == DType::F32 &&
                      value(node->inputs[0]).type() == form_.floats;
    if (node->op != Op::Reshape && !cast) break;
    id = node->inputs[0];
  }
  return id;
}

std::string OnnxBuilder::constant(const OnnxConstant& constant) {
  if (constants_.try_emplace(constant.name, constant).second) constant_order_.push_back(constant.name);
  return constant.name;
}

std::string OnnxBuilder::integers(Dims values) {
  std::vector<double> numbers(values.begin(), values.end());
  return constant({.name = fmt::format("int64[{}]", fmt::join(values, ",")),
                   .type = OnnxType::i64,
                   .dims = {std::ssize(values)},
                   .bytes = onnx_number_bytes(OnnxType::i64, numbers)});
}

std::string OnnxBuilder::integer(std::int64_t value) { return number(OnnxType::i64, static_cast<double>(value)); }

std::string OnnxBuilder::number(OnnxType type, double value) {
  return constant({.name = fmt::format("{}({:g})", onnx_type_name(type), value),
                   .type = type,
                   .bytes = onnx_number_bytes(type, {value})});
}

std::string OnnxBuilder::weight(ValueId id, OnnxType type, bool transposed) {
  const Value& v = value(id);
  std::string name = v.name;
  Dims dims = v.dims;
  if (transposed != v.transposed) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    if (transposed) {
      name += ".T";
    } else {
      name = name.ends_with(".T") ? name.substr(0, name.size() - 2) : name + ".T";
    }
  }
  return constant(
      {.name = std::move(name), .type = type, .dims = std::move(dims), .weight = v.weight, .transposed = transposed});
}

bool OnnxBuilder::read_as_stored(ValueId id) const {
  const Value& v = value(id);
  return v.kind == ValueKind::constant && v.transposed && v.dims.size() == 2 && !v.weight->slabs.empty() &&
         as_stored_.contains({v.weight->slabs.front(), v.weight->shape});
}

OnnxNode& OnnxBuilder::write(const Node& node, std::string_view op, Names inputs, Attributes attributes) {
  OnnxNode made{.name = node.name, .op_type = std::string(op), .inputs = std::move(inputs)};
  made.attributes = std::move(attributes);
  for (const ValueId id : node.outputs) {
    const Value& v = value(id);
    const OnnxType type = onnx_type(v.type());
    hold(id, unique(v.name), type, v.dims);
    made.outputs.push_back(made_[index(id)].name);
    if (v.dynamic) {
      draft_.model.graph.values.push_back({.name = made.outputs.back(), .type = type});
    } else {
      draft_.model.graph.values.push_back(onnx_value(made.outputs.back(), type, v.dims));
    }
  }
  draft_.model.graph.nodes.push_back(std::move(made));
  return draft_.model.graph.nodes.back();
}

std::string OnnxBuilder::part(std::string name, std::string_view op, Names inputs, Attributes attributes, OnnxType type,
                              const Dims& dims, std::string_view domain) {
  name = unique(name);
  part_as(name, name, op, std::move(inputs), type, dims);
  OnnxNode& made = draft_.model.graph.nodes.back();
  made.attributes = std::move(attributes);
  made.domain = domain;
  return name;
}

void OnnxBuilder::part_as(const std::string& node, const std::string& output, std::string_view op, Names inputs,
                          OnnxType type, const Dims& dims) {
  draft_.model.graph.nodes.push_back(
      {.name = node, .op_type = std::string(op), .inputs = std::move(inputs), .outputs = {output}});
  draft_.model.graph.values.push_back(onnx_value(output, type, dims));
}

void OnnxBuilder::more_outputs(const Names& names) {
  auto& outputs = draft_.model.graph.nodes.back().outputs;
  outputs.insert(outputs.end(), names.begin(), names.end());
}

void OnnxBuilder::declare_output(const std::string& name, OnnxType type, const Dims& dims) {
  draft_.model.graph.outputs.push_back(onnx_value(name, type, dims));
  std::erase_if(draft_.model.graph.values, [&](const OnnxValue& each) { return each.name == name; });
}

void OnnxBuilder::declare_decoder() {
  auto& inputs = draft_.model.graph.inputs;
  for (const std::string name : {"input_ids", "position_ids"}) {
    inputs.push_back(onnx_value(name, OnnxType::i64, {1, tokens_}));
    names_.insert(name);
  }
  for (const Node& node : graph_.list()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Value& v = value(node.inputs[i]);
      if (v.state < 0) continue;
      State& state = states_[v.state];
      if (node.op == Op::kv_read) state.heads = node.attrs.i(Attr::heads);
      if (node.op == Op::attention) state.heads = node.attrs.i(Attr::kv_heads);
    }
  }
  for (const Value& v : graph_.values()) {
    if (v.kind != ValueKind::state) continue;
    State& state = states_[v.state];
    CHECK(v.dims.size() == 2 && state.heads > 0);
    state.ctx = v.dims[0];
    state.cols = v.dims[1];
    const std::string suffix = state_suffix(v);
    state.past = unique(fmt::format("past_key_values.{}", suffix));
    state.present = unique(fmt::format("present.{}", suffix));
    inputs.push_back(onnx_value(state.past, floats(), state.dims()));
  }
}

// From the outputs back: nodes, values and constants that nothing reads.
void OnnxBuilder::drop_unread() {
  OnnxGraph& graph = draft_.model.graph;
  std::set<std::string> read;
  for (const OnnxValue& each : graph.outputs) read.insert(each.name);
  std::vector<OnnxNode> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const auto is_read = [&](const std::string& name) { return read.contains(name); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_read)) continue;
    read.insert(node->inputs.begin(), node->inputs.end());
    read.insert(node->outputs.begin(), node->outputs.end());
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
  std::erase_if(graph.values, [&](const OnnxValue& each) { return !read.contains(each.name); });
  for (const std::string& name : constant_order_)
    if (read.contains(name)) draft_.constants.push_back(std::move(constants_.at(name)));
}

OnnxDraft OnnxBuilder::run() {
  OnnxModel& model = draft_.model;
  model.ir_version = form_.opset >= 21 ? ir_version_21 : ir_version_17;
  model.producer = "knapsack";
  const auto tokens = graph_.tokens();
  if (tokens) {
    CHECK(*tokens > 0);
    tokens_ = *tokens;
    declare_decoder();
  }
  for (std::size_t id = 0; id < graph_.values().size(); ++id) {
    const Value& v = graph_.values()[id];
    if (v.kind != ValueKind::input) continue;
    if (tokens) {
      hold(static_cast<ValueId>(id), "input_ids", OnnxType::i64, {1, tokens_});
    } else {
      model.graph.inputs.push_back(onnx_value(unique(v.name), onnx_type(v.type()), v.dims));
      hold(static_cast<ValueId>(id), v.name, onnx_type(v.type()), v.dims);
    }
  }
  for (const Node& node : graph_.list()) {
    const OnnxRow row = onnx_row(node.op);
    CHECK(row != nullptr);
    row(*this, node);
  }
  if (tokens) {
    const ValueId out = graph_.output();
    const Dims dims{1, 1, value(out).cols()};
    declare_output(part("logits", "Reshape", {made_[index(out)].name, integers(dims)}, {}, type(out), dims), type(out),
                   dims);
    for (const auto& [number, state] : states_) declare_output(state.present, floats(), state.dims());
  } else {
    for (const ValueId id : graph_.outputs()) {
      std::string name = in(id);
      const auto& list = model.graph.nodes;
      const bool ours = std::any_of(list.begin(), list.end(), [&](const OnnxNode& node) {
        return std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end();
      });
      const auto& outs = model.graph.outputs;
      const bool twice = std::any_of(outs.begin(), outs.end(), [&](const OnnxValue& v) { return v.name == name; });
      if (!ours || twice)
        name = part(fmt::format("{}/Identity", name), "Identity", {name}, {}, type(id), value(id).dims);
      declare_output(name, type(id), value(id).dims);
    }
  }
  drop_unread();
  model.graph.name = "knapsack";
  model.opsets[""] = form_.opset;
  for (const auto& [domain, version] : domains_) model.opsets[domain] = version;
  return std::move(draft_);
}

OnnxDraft draft_onnx(const Graph& graph, const OnnxForm& form) {
  if (std::none_of(graph.list().begin(), graph.list().end(), is_fused)) return OnnxBuilder(graph, form).run();
  const Graph parts = unfuse(graph);
  return OnnxBuilder(parts, form).run();
}

}  // namespace knapsack
