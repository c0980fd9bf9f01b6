#include "graph/decompose/decomposer.h"

#include <fmt/format.h>

#include <array>

#include "graph/layer_name.h"

namespace knapsack {
namespace {

// "qkv_proj.weight[0:64]" -> "qkv_proj.weight"; empty: the whole of a weight.
std::string_view whole_of(std::string_view name) {
  const auto bracket = name.rfind('[');
  return name.ends_with(']') && bracket != std::string_view::npos ? name.substr(0, bracket) : std::string_view{};
}

using Rule = void (*)(Decomposer&, const Node&);
constexpr std::array rules{
#define KNAP_OP(id, text, cls, min_in, max_in, out) Rule{decompose_##id},
#include "ops/ops.inc"
#undef KNAP_OP
};

}  // namespace

std::string_view purpose_name(Purpose purpose) {
  constexpr std::array<std::string_view, 7> names{"plain",        "rope_table", "mask",     "kv_append",
                                                  "repeat_heads", "embedding",  "latent_up"};
  return names[static_cast<std::size_t>(purpose)];
}

Decomposer::Scope::Scope(Decomposer& decomposer, Op from, std::string name, Purpose purpose)
    : decomposer_(decomposer), from_(decomposer.from_), name_(decomposer.from_node_), purpose_(decomposer.purpose_) {
  decomposer_.from_ = from;
  decomposer_.from_node_ = std::move(name);
  decomposer_.purpose_ = purpose;
}

Decomposer::Scope::~Scope() {
  decomposer_.from_ = from_;
  decomposer_.from_node_.swap(name_);
  decomposer_.purpose_ = purpose_;
}

Decomposer::Decomposer(const Graph& source, const DecomposeOptions& options)
    : source_(source), stored_(options.stored) {
  CHECK(options.tokens >= 1 && options.past >= 0);
  out_.tokens = options.tokens;
  out_.past = options.past;
  forms_.resize(source.values().size());
  for (const Node& node : source.list()) {
    if (node.op != Op::linear) continue;
    const auto whole = whole_of(source.value(node.inputs[1]).name);
    if (!whole.empty()) families_[fmt::format("{}/{}", node.inputs[0], whole)].push_back(&node);
  }
  find_latents();
}

PrimitiveGraph Decomposer::run() {
  for (const Node& node : source_.list()) {
    const Scope scope(*this, node.op, node.name, Purpose::plain);
    rules[static_cast<std::size_t>(node.op)](*this, node);
  }
  out_.outputs.push_back(flat(source_.output()));
  out_.outputs.insert(out_.outputs.end(), kept_.begin(), kept_.end());
  const auto valid = verify(out_);
  CHECK(valid);
  return std::move(out_);
}

std::vector<const Node*> Decomposer::siblings(const Node& node) const {
  const auto whole = whole_of(source_.value(node.inputs[1]).name);
  if (whole.empty()) return {};
  const auto& family = families_.find(fmt::format("{}/{}", node.inputs[0], whole))->second;
  // Alone where each part reads its input's columns in an order of its own (GPTQ).
  return family.size() > 1 ? family : std::vector<const Node*>{};
}

std::string Decomposer::unique(std::string name) {
  const std::int64_t earlier = names_[name]++;
  return earlier == 0 ? name : fmt::format("{}_{}", name, earlier);
}

std::vector<int> Decomposer::add_all(OnnxOp op, std::vector<int> inputs, const Numbers& numbers) {
  std::vector<const OnnxShape*> shapes;
  shapes.reserve(inputs.size());
  for (const int id : inputs) shapes.push_back(&shape(id));
  auto made = infer_onnx(op, numbers, shapes);
  if (!made)
    check_failed(fmt::format("{} of {}: {}", onnx_name(op), from_node_, made.error().message).c_str(), __FILE__,
                 __LINE__);
  PrimitiveNode node;
  node.op = op;
  node.name = unique(fmt::format("{}/{}", from_node_, onnx_name(op)));
  node.inputs = std::move(inputs);
  node.numbers = numbers;
  node.layer = layer_of(from_node_);
  node.from = from_;
  node.from_node = from_node_;
  node.purpose = purpose_;
  for (OnnxShape& each : *made) {
    PrimitiveTensor tensor;
    tensor.name = node.outputs.empty() ? node.name : fmt::format("{}:{}", node.name, node.outputs.size());
    tensor.bytes = each.elements() * onnx_type_bytes(each.type);
    tensor.shape = std::move(each);
    node.outputs.push_back(static_cast<int>(out_.tensors.size()));
    out_.tensors.push_back(std::move(tensor));
  }
  out_.nodes.push_back(std::move(node));
  return out_.nodes.back().outputs;
}

int Decomposer::add(OnnxOp op, std::vector<int> inputs, const Numbers& numbers) {
  const auto made = add_all(op, std::move(inputs), numbers);
  return made.front();
}

int Decomposer::cast(int tensor, OnnxType type) {
  return shape(tensor).type == type ? tensor : add(OnnxOp::Cast, {tensor}, {static_cast<std::int64_t>(type)});
}

std::int64_t Decomposer::stored_bytes(const Weight& weight) const {
  return stored_ && !weight.slabs.empty() ? weight.bytes() : 0;
}

std::string Decomposer::stored_name(const Weight& weight) const {
  return stored_ && !weight.slabs.empty() ? std::string(name(weight.dtype)) : std::string{};
}

int Decomposer::constant(std::string name, OnnxShape shape, std::int64_t bytes, std::string stored) {
  const auto [it, fresh] = constants_.try_emplace(name, static_cast<int>(out_.tensors.size()));
  if (fresh)
    out_.tensors.push_back({std::move(name), ValueKind::constant, std::move(shape), bytes, std::move(stored), false});
  return it->second;
}

int Decomposer::number(double value, OnnxType type) {
  const int id =
      constant(fmt::format("{}({})", onnx_type_name(type), value), {type, {}, false}, onnx_type_bytes(type), {});
  out_.tensors[static_cast<std::size_t>(id)].minus_infinity = value < -1e30;
  return id;
}

int Decomposer::matrix(ValueId weight, std::int64_t expert) {
  const Value& value = source_.value(weight);
  const Weight& w = *value.weight;
  const std::size_t first = w.shape.size() - 2;
  if (expert < 0)
    return constant(value.name + ".T", {OnnxType::float16, {w.shape[first + 1], w.shape[first]}, false},
                    stored_bytes(w), stored_name(w));
  std::string name = value.name;
  const auto star = name.find('*');
  if (star != std::string::npos) {
    name.replace(star, 1, std::to_string(expert));
  } else {
    name += fmt::format("[{}]", expert);
  }
  return constant(name + ".T", {OnnxType::float16, {w.shape[first + 1], w.shape[first]}, false},
                  stored_bytes(w) / w.shape[0], stored_name(w));
}

int Decomposer::matrix_rows(const std::string& name, std::span<const ValueId> parts) {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  const Weight& first = *source_.value(parts.front()).weight;
  for (const ValueId part : parts) {
    rows += source_.value(part).weight->shape[0];
    bytes += stored_bytes(*source_.value(part).weight);
  }
  OnnxShape shape{OnnxType::float16, {rows}, false};
  if (first.shape.size() == 2) shape.dims.insert(shape.dims.begin(), first.shape[1]);
  return constant(name, std::move(shape), bytes, stored_name(first));
}

int Decomposer::weight(ValueId weight, OnnxType type) {
  const Value& value = source_.value(weight);
  const Weight& w = *value.weight;
  const bool again = type == OnnxType::float32;  // one that is folded: 1 + w of a norm
  return constant(again ? value.name + ".f32" : value.name, {type, w.shape, false}, stored_bytes(w), stored_name(w));
}

int Decomposer::input(const std::string& name, OnnxShape shape) {
  const int id = static_cast<int>(out_.tensors.size());
  const std::int64_t bytes = shape.elements() * onnx_type_bytes(shape.type);
  out_.tensors.push_back({name, ValueKind::input, std::move(shape), bytes, {}, false});
  return id;
}

int Decomposer::flat(ValueId value) {
  Forms& f = forms(value);
  if (f.flat >= 0) return f.flat;
  if (f.split < 0) {
    join_parts(value);
    f.split = add(OnnxOp::Transpose, {f.headed}, {0, 2, 1, 3});
  }
  const auto& d = shape(f.split).dims;
  f.flat = add(OnnxOp::Reshape, {f.split}, {d[0], d[1], d[2] * d[3]});
  return f.flat;
}

int Decomposer::split(ValueId value, std::int64_t heads) {
  Forms& f = forms(value);
  if (f.split >= 0 && shape(f.split).dims[2] == heads) return f.split;
  const int from = flat(value);
  const auto& d = shape(from).dims;
  f.split = add(OnnxOp::Reshape, {from}, {d[0], d[1], heads, d[2] / heads});
  return f.split;
}

int Decomposer::headed(ValueId value, std::int64_t heads) {
  Forms& f = forms(value);
  join_parts(value);
  if (f.headed >= 0 && shape(f.headed).dims[1] == heads) return f.headed;
  f.headed = add(OnnxOp::Transpose, {split(value, heads)}, {0, 2, 1, 3});
  return f.headed;
}

int Decomposer::columns(ValueId value, std::int64_t heads, std::int64_t begin, std::int64_t count) {
  Forms& f = forms(value);
  if (const auto made = f.columns.find({begin, count}); made != f.columns.end()) return made->second;
  const int whole = headed(value, heads);
  const std::int64_t width = shape(whole).dims[3];
  if (begin == 0 && count == width) return whole;
  Numbers numbers{3};
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (const auto& [b, n] :
       {std::pair{std::int64_t{0}, begin}, std::pair{begin, count}, std::pair{begin + count, width - begin - count}}) {
    if (n == 0) continue;
    numbers.push_back(n);
    parts.emplace_back(b, n);
  }
  const auto made = add_all(OnnxOp::Split, {whole}, numbers);
  for (std::size_t i = 0; i < parts.size(); ++i) f.columns[parts[i]] = made[i];
  return f.columns.at({begin, count});
}

void Decomposer::set_flat(ValueId value, int tensor) { forms(value).flat = tensor; }
void Decomposer::set_split(ValueId value, int tensor) { forms(value).split = tensor; }
void Decomposer::set_headed(ValueId value, int tensor) { forms(value).headed = tensor; }

void Decomposer::set_part(ValueId value, int part, std::int64_t begin, std::int64_t count, ValueId rest) {
  Forms& f = forms(value);
  f.columns[{begin, count}] = part;
  f.part_begin = begin;
  f.part_count = count;
  f.rest = rest;
}

// Where all columns of a value that was made in parts are asked for.
void Decomposer::join_parts(ValueId value) {
  Forms& f = forms(value);
  if (f.headed >= 0 || f.rest < 0) return;
  const int part = f.columns.at({f.part_begin, f.part_count});
  const std::int64_t heads = shape(part).dims[1];
  const std::int64_t width = source_.value(value).cols / heads;
  const std::int64_t end = f.part_begin + f.part_count;
  std::vector<int> all;
  if (f.part_begin > 0) all.push_back(columns(f.rest, heads, 0, f.part_begin));
  all.push_back(part);
  if (end < width) all.push_back(columns(f.rest, heads, end, width - end));
  f.headed = add(OnnxOp::Concat, std::move(all), {3});
}

int Decomposer::positions() {
  if (positions_ < 0) positions_ = input("position_ids", {OnnxType::int64, {1, out_.tokens}, false});
  return positions_;
}

std::pair<int, int> Decomposer::rope_table(ValueId inv_freq, float scale) {
  const auto [it, fresh] = ropes_.try_emplace({inv_freq, scale});
  if (!fresh) return it->second;
  const Scope scope(*this, Op::rope, source_.value(inv_freq).name, Purpose::rope_table);
  const std::int64_t half = source_.value(inv_freq).weight->shape[0];
  const int table = constant(source_.value(inv_freq).name, {OnnxType::float32, {1, half, 1}, false}, half * 4, "F32");
  const int position = cast(add(OnnxOp::Unsqueeze, {positions()}, {1}), OnnxType::float32);
  const int angle = add(OnnxOp::Transpose, {add(OnnxOp::MatMul, {table, position})}, {0, 2, 1});
  const int both = add(OnnxOp::Concat, {angle, angle}, {2});
  const auto finish = [&](OnnxOp op) {
    int out = add(op, {both});
    if (scale != 1) out = add(OnnxOp::Mul, {out, number(scale, OnnxType::float32)});
    return add(OnnxOp::Unsqueeze, {cast(out, OnnxType::float16)}, {1});
  };
  const int cos = finish(OnnxOp::Cos);
  it->second = {cos, finish(OnnxOp::Sin)};
  return it->second;
}

// A key later than its query is hidden by minus infinity; with a window one that is too early, too.
int Decomposer::mask(std::int64_t window) {
  const auto [it, fresh] = masks_.try_emplace(window, -1);
  if (!fresh) return it->second;
  const Scope scope(*this, Op::attention, window > 0 ? fmt::format("mask.window{}", window) : "mask", Purpose::mask);
  const int keys = constant("key_positions", {OnnxType::int64, {reach()}, false}, reach() * 8, {});
  const int query = add(OnnxOp::Reshape, {positions()}, {out_.tokens, 1});
  int hidden = add(OnnxOp::Greater, {keys, query});
  if (window > 0) {
    const int first = add(OnnxOp::Sub, {query, number(static_cast<double>(window), OnnxType::int64)});
    hidden = add(OnnxOp::Or, {hidden, add(OnnxOp::LessOrEqual, {keys, first})});
  }
  const int values = add(OnnxOp::Where, {hidden, number(-HUGE_VAL, OnnxType::float16), number(0, OnnxType::float16)});
  it->second = add(OnnxOp::Unsqueeze, {add(OnnxOp::Unsqueeze, {values}, {0})}, {0});
  return it->second;
}

void Decomposer::write(ValueId after, ValueId before, ValueId rows, std::int64_t column) {
  const Node* node = nullptr;
  for (const Node& each : source_.list())
    if (each.outputs.front() == after) node = &each;
  writes_.emplace(after, Write{before, rows, column, node});
}

int Decomposer::cache(ValueId state, std::int64_t heads) {
  const auto [it, fresh] = caches_.try_emplace(state, -1);
  if (!fresh) return it->second;
  std::map<std::int64_t, const Write*> parts;  // by column
  ValueId first = state;
  for (auto found = writes_.find(state); found != writes_.end(); found = writes_.find(first)) {
    parts.emplace(found->second.column, &found->second);
    first = found->second.before;
  }
  CHECK(!parts.empty() && source_.value(first).kind == ValueKind::state);
  const Node& node = *parts.rbegin()->second->node;
  const Scope scope(*this, Op::kv_write, node.name, Purpose::plain);
  std::vector<int> rows;
  rows.reserve(parts.size());
  for (const auto& [column, each] : parts) rows.push_back(headed(each->rows, heads));
  const int now = rows.size() == 1 ? rows.front() : add(OnnxOp::Concat, rows, {3});
  it->second = append(source_.value(first).name, now);
  return it->second;
}

int Decomposer::append(const std::string& name, int rows) {
  int now = rows;
  if (out_.past > 0) {
    OnnxShape before = shape(rows);
    before.dims[2] = out_.past;
    const std::int64_t bytes = before.elements() * onnx_type_bytes(before.type);
    const int past = static_cast<int>(out_.tensors.size());
    out_.tensors.push_back({name, ValueKind::state, std::move(before), bytes, {}, false});
    purpose_ = Purpose::kv_append;
    now = add(OnnxOp::Concat, {past, rows}, {2});
    purpose_ = Purpose::plain;
  }
  kept_.push_back(now);
  return now;
}

PrimitiveGraph decompose(const Graph& graph, const DecomposeOptions& options) {
  return Decomposer(graph, options).run();
}

}  // namespace knapsack
