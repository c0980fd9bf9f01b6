#include "graph/decompose/decomposer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "graph/decompose/unfuse.h"
#include "graph/join_rows.h"
#include "tensor/half.h"

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

// A weight of `count` elements, each of which is f(i).
template <class F>
std::shared_ptr<const Weight> made_weight(const std::string& name, std::vector<std::int64_t> dims, DType type, F&& f) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  std::vector<std::byte> data(static_cast<std::size_t>(row_bytes(type, count)));
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = f(i);
    const auto put = [&](auto number) {
      std::memcpy(data.data() + i * std::int64_t{sizeof number}, &number, sizeof number);
    };
    if (type == DType::F32) put(static_cast<float>(value));
    if (type == DType::F16) put(float_to_half(static_cast<float>(value)));
    if (type == DType::I64) put(static_cast<std::int64_t>(value));
    if (type == DType::I32) put(static_cast<std::int32_t>(value));
  }
  return owned_weight(name, type, std::move(dims), std::move(data));
}

}  // namespace

Attrs axis(std::int64_t axis) { return Attrs().set(Attr::axis, axis); }
Attrs axes(std::vector<std::int64_t> axes, bool keep) {
  return Attrs().set(Attr::axes, std::move(axes)).set(Attr::keepdims, keep ? 1 : 0);
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
    : source_(source), options_(options), uses_(source) {
  CHECK(options.tokens >= 1 && options.past >= 0);
  CHECK(appends() || options.ctx > 0);
  forms_.resize(source.values().size());
  states_.assign(source.values().size(), -1);
  for (const Node& node : source.list()) {
    if (node.op != Op::linear || !decomposes(node)) continue;
    const auto whole = whole_of(source.value(node.inputs[1]).name);
    if (!whole.empty()) families_[fmt::format("{}/{}", node.inputs[0], whole)].push_back(&node);
  }
  if (appends()) find_latents();
}

bool Decomposer::decomposes(const Node& node) const {
  if (op_info(node.op).primitive) return false;
  if (appends()) return true;
  if (node.op == Op::kv_write || node.op == Op::kv_read || node.op == Op::positions) return false;
  if (options_.decomposes == nullptr) return true;
  if (node.op != Op::router && node.op != Op::moe) return options_.decomposes(node);
  // Who chooses and who is chosen speak of experts by number, of one type.
  const ValueId ids = node.op == Op::router ? node.outputs[0] : node.inputs[1];
  return std::any_of(source_.list().begin(), source_.list().end(), [&](const Node& each) {
    const bool together =
        (each.op == Op::router && each.outputs[0] == ids) || (each.op == Op::moe && each.inputs[1] == ids);
    return together && options_.decomposes(each);
  });
}

// Inputs and states of the form that runs.
void Decomposer::declare() {
  if (appends()) return;
  for (std::size_t id = 0; id < source_.values().size(); ++id) {
    const Value& v = source_.values()[id];
    if (v.kind == ValueKind::input) {
      CHECK(v.rows() == tokens_dim || v.rows() == tokens());
      ids_ = out_.input(v.name, v.dtype, {tokens(), 1});
      forms(static_cast<ValueId>(id)).rows = ids_;
    } else if (v.kind == ValueKind::state) {
      states_[id] = out_.state(v.name, v.cols(), options_.ctx, v.channel_first);
    }
  }
}

Graph Decomposer::run() {
  declare();
  for (const Node& node : source_.list()) {
    if (!decomposes(node)) {
      keep(node);
      continue;
    }
    const Scope scope(*this, node.op, node.name, Purpose::plain);
    rules[static_cast<std::size_t>(node.op)](*this, node);
  }
  if (appends()) {
    out_.add_output(flat(source_.output()));
    for (const ValueId id : kept_) out_.add_output(id);
  } else {
    const Scope scope(*this, Op::select_rows, "output", Purpose::plain);
    out_.add_output(cast(rows(source_.output()), DType::F32));
  }
  const auto valid = verify(out_);
  if (!valid) check_failed(valid.error().message.c_str(), __FILE__, __LINE__);
  return std::move(out_);
}

// A node as it is, on values of the result.
void Decomposer::keep(const Node& node) {
  std::vector<ValueId> inputs;
  inputs.reserve(node.inputs.size());
  const Scope scope(*this, node.op, node.name, Purpose::plain);
  for (const ValueId id : node.inputs) {
    const Value& v = source_.value(id);
    if (v.kind == ValueKind::constant) {
      inputs.push_back(out_.constant(v.weight, {.transposed = v.transposed, .as = v.as, .name = v.name}));
    } else if (v.state >= 0) {
      inputs.push_back(states_[static_cast<std::size_t>(id)]);
    } else {
      // What a primitive node made is as it was made; ours compute in F32.
      ValueId input = v.dims.size() == 2 ? rows(id) : forms(id).flat;
      if (!op_info(node.op).primitive && type(input) == floats()) input = cast(input, DType::F32);
      inputs.push_back(input);
    }
  }
  Attrs attrs = node.attrs;
  if (node.op == Op::positions && !attrs.has(Attr::rows)) attrs.set(Attr::rows, tokens());
  std::vector<std::string> names;
  names.reserve(node.outputs.size());
  for (const ValueId id : node.outputs) names.push_back(source_.value(id).name);
  const auto made = out_.nodes(node.op, std::move(names), std::move(inputs), std::move(attrs));
  Node& last = out_.last();
  last.origin = node.origin;
  last.origin_op = node.origin_op;
  last.purpose = node.purpose;
  last.unit = node.unit;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const ValueId of = node.outputs[i];
    const Value v = out_.value(made[i]);
    if (v.state >= 0) {
      states_[static_cast<std::size_t>(of)] = made[i];
      continue;
    }
    const bool ours = !op_info(node.op).primitive && v.type() == DType::F32;
    const ValueId value = ours ? cast(made[i], floats()) : made[i];
    if (v.dims.size() == 2) {
      set_rows(of, value);
    } else {
      set_flat(of, value);
    }
  }
}

std::vector<const Node*> Decomposer::siblings(const Node& node) const {
  const auto whole = whole_of(source_.value(node.inputs[1]).name);
  if (whole.empty()) return {};
  const auto& family = families_.find(fmt::format("{}/{}", node.inputs[0], whole))->second;
  // Alone where each part reads its input's columns in an order of its own (GPTQ).
  return family.size() > 1 ? family : std::vector<const Node*>{};
}

std::string Decomposer::unique(std::string name) {
  std::string made = name;
  for (std::int64_t earlier = names_[name]; earlier > 0 || out_.find(made) >= 0; ++earlier) {
    made = fmt::format("{}_{}", name, std::max<std::int64_t>(earlier, 1));
    if (out_.find(made) < 0) break;
  }
  ++names_[name];
  return made;
}

std::vector<ValueId> Decomposer::add_all(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  auto made =
      out_.nodes(op, unique(fmt::format("{}/{}", from_node_, op_info(op).text)), std::move(inputs), std::move(attrs));
  Node& node = out_.last();
  node.origin = from_node_;
  node.origin_op = from_;
  node.purpose = purpose_;
  return made;
}

ValueId Decomposer::add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return add_all(op, std::move(inputs), std::move(attrs)).front();
}

ValueId Decomposer::cast(ValueId value, DType type) {
  return this->type(value) == type ? value
                                   : add(Op::Cast, {value}, Attrs().set(Attr::to, static_cast<std::int64_t>(type)));
}
ValueId Decomposer::reshape(ValueId value, Numbers shape) {
  return add(Op::Reshape, {value}, Attrs().set(Attr::shape, std::move(shape)));
}
ValueId Decomposer::transpose(ValueId value, Numbers perm) {
  return add(Op::Transpose, {value}, Attrs().set(Attr::perm, std::move(perm)));
}
ValueId Decomposer::slice(ValueId value, std::int64_t along, std::int64_t begin, std::int64_t end) {
  return add(Op::Slice, {value},
             Attrs().set(Attr::axes, Numbers{along}).set(Attr::starts, Numbers{begin}).set(Attr::ends, Numbers{end}));
}
ValueId Decomposer::concat(std::vector<ValueId> values, std::int64_t along) {
  return add(Op::Concat, std::move(values), axis(along));
}
std::vector<ValueId> Decomposer::split(ValueId value, std::int64_t along, Numbers sizes) {
  return add_all(Op::Split, {value}, axis(along).set(Attr::splits, std::move(sizes)));
}
ValueId Decomposer::unsqueeze(ValueId value, std::int64_t along) {
  return add(Op::Unsqueeze, {value}, Attrs().set(Attr::axes, Numbers{along}));
}
ValueId Decomposer::expand(ValueId value, Numbers shape) {
  return add(Op::Expand, {value}, Attrs().set(Attr::shape, std::move(shape)));
}

std::shared_ptr<const Weight> Decomposer::known(std::shared_ptr<const Weight> weight) const {
  if (options_.stored || weight->slabs.empty()) return weight;
  auto shape = std::make_shared<Weight>(*weight);
  shape->slabs.clear();
  shape->owners.clear();
  return shape;
}

ValueId Decomposer::constant(std::shared_ptr<const Weight> weight, ConstantView view) {
  CHECK(!view.name.empty());
  const auto [it, fresh] = constants_.try_emplace(view.name, -1);
  if (fresh) it->second = out_.constant(known(std::move(weight)), std::move(view));
  return it->second;
}

ValueId Decomposer::number(double value, DType type) {
  return fill(fmt::format("{}({})", onnx_type_name(type), value), {}, type, value);
}

ValueId Decomposer::fill(const std::string& name, Numbers dims, DType type, double value) {
  const auto [it, fresh] = constants_.try_emplace(name, -1);
  if (fresh) {
    auto weight = made_weight(name, std::move(dims), type, [value](std::int64_t) { return value; });
    it->second = out_.constant(weight, {.as = type, .name = name});
  }
  return it->second;
}

ValueId Decomposer::matrix(ValueId weight, std::int64_t expert) {
  const Value& value = source_.value(weight);
  const Weight& w = *value.weight;
  if (expert < 0) return constant(value.weight, {.transposed = true, .as = floats(), .name = value.name + ".T"});
  std::string name = value.name;
  const auto star = name.find('*');
  if (star != std::string::npos) {
    name.replace(star, 1, std::to_string(expert));
  } else {
    name += fmt::format("[{}]", expert);
  }
  auto one = std::make_shared<Weight>(w);
  one->name = name;
  one->shape.erase(one->shape.begin());
  if (!w.slabs.empty()) one->slabs = {w.slab(expert)};
  return constant(std::move(one), {.transposed = true, .as = floats(), .name = name + ".T"});
}

ValueId Decomposer::matrix_rows(const std::string& name, std::span<const ValueId> parts) {
  std::vector<const Weight*> weights;
  weights.reserve(parts.size());
  for (const ValueId part : parts) weights.push_back(source_.value(part).weight.get());
  auto whole = join_rows(name, weights);
  const bool matrix = whole->shape.size() == 2;
  return constant(std::move(whole), {.transposed = matrix, .as = floats(), .name = name});
}

ValueId Decomposer::weight(ValueId weight, std::optional<DType> as) {
  const Value& value = source_.value(weight);
  const DType type = as.value_or(floats());
  const bool again = as == DType::F32 && floats() != DType::F32;
  return constant(value.weight, {.as = type, .name = again ? value.name + ".f32" : value.name});
}

ValueId Decomposer::shifted(ValueId weight, float by) {
  const Value& value = source_.value(weight);
  const std::shared_ptr<const Weight> w = known(value.weight);
  std::shared_ptr<const Weight> sum = w;
  if (!w->slabs.empty())
    sum = made_weight(value.name, w->shape, DType::F32,
                      [&](std::int64_t i) { return static_cast<double>(w->f32()[i] + by); });
  return constant(sum, {.as = DType::F32, .name = value.name + ".f32"});
}

ValueId Decomposer::index(ValueId weight) {
  const Value& value = source_.value(weight);
  const Weight& w = *value.weight;
  const auto at = [&](std::int64_t i) {
    return w.slabs.empty() ? 0.0 : static_cast<double>(load_unaligned<std::int32_t>(w.slab(0) + i * 4));
  };
  CHECK(w.dtype == DType::I32);
  return constant(made_weight(value.name, w.shape, DType::I64, at), {.as = DType::I64, .name = value.name});
}

ValueId Decomposer::input(const std::string& name, DType type, Numbers dims) {
  return out_.input(name, type, std::move(dims));
}

ValueId Decomposer::ids() {
  if (ids_ < 0) ids_ = input("input_ids", DType::I64, {1, tokens()});
  return ids_;
}

ValueId Decomposer::rows(ValueId value) {
  Forms& f = forms(value);
  if (f.rows >= 0) return f.rows;
  const ValueId from = flat(value);
  f.rows = reshape(from, {dims(from)[1], dims(from)[2]});
  return f.rows;
}

ValueId Decomposer::flat(ValueId value) {
  Forms& f = forms(value);
  if (f.flat >= 0) return f.flat;
  if (f.rows >= 0) {
    f.flat = reshape(f.rows, {1, dims(f.rows)[0], dims(f.rows)[1]});
    return f.flat;
  }
  if (f.split < 0) {
    join_parts(value);
    f.split = transpose(f.headed, {0, 2, 1, 3});
  }
  const auto d = dims(f.split);
  f.flat = reshape(f.split, {d[0], d[1], d[2] * d[3]});
  return f.flat;
}

ValueId Decomposer::split(ValueId value, std::int64_t heads) {
  Forms& f = forms(value);
  if (f.split >= 0 && dims(f.split)[2] == heads) return f.split;
  const ValueId from = flat(value);
  const auto d = dims(from);
  f.split = reshape(from, {d[0], d[1], heads, d[2] / heads});
  return f.split;
}

ValueId Decomposer::headed(ValueId value, std::int64_t heads) {
  Forms& f = forms(value);
  join_parts(value);
  if (f.headed >= 0 && dims(f.headed)[1] == heads) return f.headed;
  f.headed = transpose(split(value, heads), {0, 2, 1, 3});
  return f.headed;
}

ValueId Decomposer::columns(ValueId value, std::int64_t heads, std::int64_t begin, std::int64_t count) {
  Forms& f = forms(value);
  if (const auto made = f.columns.find({begin, count}); made != f.columns.end()) return made->second;
  const ValueId whole = headed(value, heads);
  const std::int64_t width = dims(whole)[3];
  if (begin == 0 && count == width) return whole;
  Numbers sizes;
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (const auto& [b, n] :
       {std::pair{std::int64_t{0}, begin}, std::pair{begin, count}, std::pair{begin + count, width - begin - count}}) {
    if (n == 0) continue;
    sizes.push_back(n);
    parts.emplace_back(b, n);
  }
  const auto made = split(whole, 3, std::move(sizes));
  for (std::size_t i = 0; i < parts.size(); ++i) f.columns[parts[i]] = made[i];
  return f.columns.at({begin, count});
}

void Decomposer::set_rows(ValueId value, ValueId made) { forms(value).rows = made; }
void Decomposer::set_flat(ValueId value, ValueId made) { forms(value).flat = made; }
void Decomposer::set_split(ValueId value, ValueId made) { forms(value).split = made; }
void Decomposer::set_headed(ValueId value, ValueId made) { forms(value).headed = made; }

void Decomposer::set_part(ValueId value, ValueId part, std::int64_t begin, std::int64_t count, ValueId rest) {
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
  const ValueId part = f.columns.at({f.part_begin, f.part_count});
  const std::int64_t heads = dims(part)[1];
  const std::int64_t width = source_.value(value).cols() / heads;
  const std::int64_t end = f.part_begin + f.part_count;
  std::vector<ValueId> all;
  if (f.part_begin > 0) all.push_back(columns(f.rest, heads, 0, f.part_begin));
  all.push_back(part);
  if (end < width) all.push_back(columns(f.rest, heads, end, width - end));
  f.headed = concat(std::move(all), 3);
}

ValueId Decomposer::positions() {
  if (positions_ >= 0) return positions_;
  if (appends()) {
    positions_ = input("position_ids", DType::I64, {1, tokens()});
  } else {
    const Scope scope(*this, Op::positions, "positions", Purpose::rope_table);
    const ValueId rows = out_.node(Op::positions, unique("positions"), {}, Attrs().set(Attr::rows, tokens()));
    positions_ = reshape(rows, {1, tokens()});
  }
  return positions_;
}

std::pair<ValueId, ValueId> Decomposer::rope_table(ValueId inv_freq, float scale) {
  const auto [it, fresh] = ropes_.try_emplace({inv_freq, scale});
  if (!fresh) return it->second;
  const Value& value = source_.value(inv_freq);
  const Scope scope(*this, Op::rope, value.name, Purpose::rope_table);
  auto column = std::make_shared<Weight>(*value.weight);
  column->shape = {1, value.weight->shape[0], 1};
  const ValueId table = constant(std::move(column), {.as = DType::F32, .name = value.name});
  const ValueId position = cast(unsqueeze(positions(), 1), DType::F32);
  const ValueId angle = transpose(add(Op::MatMul, {table, position}), {0, 2, 1});
  const ValueId both = concat({angle, angle}, 2);
  const auto finish = [&](Op op) {
    ValueId out = add(op, {both});
    if (scale != 1) out = add(Op::Mul, {out, number(scale, DType::F32)});
    return unsqueeze(cast(out, floats()), 1);
  };
  const ValueId cos = finish(Op::Cos);
  it->second = {cos, finish(Op::Sin)};
  return it->second;
}

std::pair<ValueId, ValueId> Decomposer::rope_rows(ValueId cos, ValueId sin) {
  const auto [it, fresh] = rope_rows_.try_emplace(cos);
  if (!fresh) return it->second;
  const Scope scope(*this, Op::rope_cached, source_.value(cos).name, Purpose::rope_table);
  const auto rows = [&](ValueId table) {
    const ValueId half = add(Op::Gather, {weight(table), positions()}, axis(0));  // [1, tokens, columns / 2]
    return unsqueeze(concat({half, half}, 2), 1);
  };
  it->second.first = rows(cos);
  it->second.second = rows(sin);
  return it->second;
}

// A key later than its query is hidden; with a window one that is too early, too. Exporters hide with minus infinity;
// what runs does so with half of the lowest finite number, which adding a score cannot make infinite.
ValueId Decomposer::mask(std::int64_t window) {
  const auto [it, fresh] = masks_.try_emplace(window, -1);
  if (!fresh) return it->second;
  const Scope scope(*this, Op::attention, window > 0 ? fmt::format("mask.window{}", window) : "mask", Purpose::mask);
  const ValueId query = reshape(positions(), {tokens(), 1});
  const DType whole = type(query);
  const auto [known, first_keys] = constants_.try_emplace("key_positions", -1);
  if (first_keys)
    known->second = out_.constant(
        made_weight("key_positions", {reach()}, whole, [](std::int64_t i) { return static_cast<double>(i); }),
        {.as = whole, .name = "key_positions"});
  const ValueId keys = known->second;
  ValueId hidden = add(Op::Greater, {keys, query});
  if (window > 0) {
    const ValueId first = add(Op::Sub, {query, number(static_cast<double>(window), whole)});
    hidden = add(Op::Or, {hidden, add(Op::LessOrEqual, {keys, first})});
  }
  const double lowest = floats() == DType::F16 ? -32752 : -1.7e38;
  const ValueId values =
      add(Op::Where, {hidden, number(appends() ? -HUGE_VAL : lowest, floats()), number(0, floats())});
  it->second = unsqueeze(unsqueeze(values, 0), 0);
  return it->second;
}

void Decomposer::write(const Node& node) {
  writes_.emplace(node.outputs[0], Write{node.inputs[1], node.inputs[0], node.attrs.i(Attr::col), &node});
}

ValueId Decomposer::cache(ValueId state, std::int64_t heads) {
  const auto [it, fresh] = caches_.try_emplace({state, heads}, -1);
  if (!fresh) return it->second;
  if (!appends()) {
    it->second =
        cast(add(Op::kv_read, {states_[static_cast<std::size_t>(state)]}, Attrs().set(Attr::heads, heads)), floats());
    return it->second;
  }
  std::map<std::int64_t, const Write*> parts;  // by column
  ValueId first = state;
  for (auto found = writes_.find(state); found != writes_.end(); found = writes_.find(first)) {
    parts.emplace(found->second.column, &found->second);
    first = found->second.before;
  }
  CHECK(!parts.empty() && source_.value(first).kind == ValueKind::state);
  const Node& node = *parts.rbegin()->second->node;
  const Scope scope(*this, Op::kv_write, node.name, Purpose::plain);
  std::vector<ValueId> new_rows;
  new_rows.reserve(parts.size());
  for (const auto& [column, each] : parts) new_rows.push_back(headed(each->rows, heads));
  const ValueId now = new_rows.size() == 1 ? new_rows.front() : concat(new_rows, 3);
  it->second = append(source_.value(first).name, now);
  return it->second;
}

ValueId Decomposer::append(const std::string& name, ValueId new_rows) {
  ValueId now = new_rows;
  if (options_.past > 0) {
    Numbers before = dims(new_rows);
    before[2] = options_.past;
    const ValueId past = input(name, type(new_rows), std::move(before));
    purpose_ = Purpose::kv_append;
    now = concat({past, new_rows}, 2);
    purpose_ = Purpose::plain;
  }
  kept_.push_back(now);
  return now;
}

std::string_view onnx_type_name(DType type) {
  switch (type) {
    case DType::F16:
      return "float16";
    case DType::BF16:
      return "bfloat16";
    case DType::F32:
      return "float32";
    case DType::F64:
      return "double";
    case DType::I64:
      return "int64";
    case DType::I32:
      return "int32";
    case DType::I16:
      return "int16";
    case DType::I8:
      return "int8";
    case DType::BOOL:
      return "bool";
    default:
      return "float32";  // a constant of another storage format
  }
}

Graph decompose(const Graph& graph, const DecomposeOptions& options) {
  const auto& list = graph.list();
  const bool fused =
      std::any_of(list.begin(), list.end(), [](const Node& node) { return node.op == Op::fused_linear; });
  if (!fused) return Decomposer(graph, options).run();
  const Graph parts = unfuse(graph, options.decomposes);
  DecomposeOptions of_parts = options;
  // What a fused node was made of is asked for with it.
  if (options.decomposes != nullptr)
    of_parts.decomposes = [&](const Node& node) {
      return node.origin_op == Op::fused_linear || options.decomposes(node);
    };
  return Decomposer(parts, of_parts).run();
}

}  // namespace knapsack
