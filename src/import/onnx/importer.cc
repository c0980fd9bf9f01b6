#include "import/onnx/importer.h"

#include <algorithm>
#include <cstring>

#include "graph/evaluate.h"
#include "graph/shape.h"
#include "import/onnx/call.h"
#include "import/onnx/pins.h"

namespace knapsack::onnx {
namespace {

constexpr std::int64_t oldest_opset = 11;
constexpr std::int64_t newest_opset = 23;
// Of all that importing computes; what is larger than `large` stays a node unless it is whole numbers, which may be a
// shape.
constexpr std::int64_t most_computed = std::int64_t{1} << 30;
constexpr std::int64_t large = std::int64_t{1} << 20;
constexpr std::int64_t slow = std::int64_t{1} << 16;

bool is_float(DType dtype) {
  return format(dtype).decode != nullptr && dtype != DType::BOOL && dtype != DType::I64 && dtype != DType::I32 &&
         dtype != DType::I16 && dtype != DType::I8;
}

std::int64_t bytes_in(const Value& value) { return value.elements() * format(value.dtype).block_bytes; }

// Whether computing the op now costs about as much as writing its result.
bool cheap(Op op, const std::vector<const Value*>& inputs) {
  if (op_info(op).cls == OpClass::matrix) return false;
  std::int64_t read = 0;
  for (const Value* v : inputs) read += v->elements();
  switch (op) {
    case Op::MaxPool:
    case Op::AveragePool:
    case Op::Resize:
    case Op::TopK:
      return read < slow;
    default:
      return read <= max_evaluated_bytes;
  }
}

std::string where(const OnnxNode& node) {
  return fmt::format("node '{}' ({})", node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name,
                     node.op_type);
}

}  // namespace

Ref Importer::add(Entry entry) {
  entries_.push_back(std::move(entry));
  return static_cast<Ref>(entries_.size()) - 1;
}

Result<void> Importer::define(const std::string& name, Ref ref) {
  if (!named_.emplace(name, ref).second) return bad_input("the value '{}' is made twice", name);
  return {};
}

Result<void> Importer::define_missing(const OnnxNode& node, std::size_t index) {
  Entry e;
  e.missing = true;
  e.blame = fmt::format("its output {} is used, which is not computed here", index);
  e.op = node.op_type;
  e.node = node.name.empty() ? node.outputs.front() : node.name;
  return define(node.outputs[index], add(std::move(e)));
}

std::string Importer::fresh(const std::string& name, std::size_t count) {
  const std::string base = name.empty() ? "value" : name;
  std::string found = base;
  const auto taken = [&] {
    if (graph_.find(found) >= 0) return true;
    for (std::size_t k = 1; k < count; ++k)
      if (graph_.find(fmt::format("{}.{}", found, k)) >= 0) return true;
    return false;
  };
  while (taken()) found = fmt::format("{}#{}", base, ++suffixes_[base]);
  return found;
}

ValueId Importer::id_of(Ref ref) {
  Entry& e = entries_[static_cast<std::size_t>(ref)];
  CHECK(!e.missing);
  if (e.id < 0)
    e.id = graph_.constant(e.value.weight, {.transposed = e.value.transposed, .name = fresh(e.value.name, 1)});
  return e.id;
}

Result<void> Importer::spend(std::int64_t bytes) {
  computed_bytes_ += bytes;
  if (bytes > max_evaluated_bytes || computed_bytes_ > most_computed)
    return unsupported("constants that the file has computed take more than {} MiB", most_computed >> 20);
  return {};
}

Result<Ref> Importer::constant(std::string name, DType dtype, std::vector<std::int64_t> dims,
                               std::vector<std::byte> bytes) {
  TRY_VOID(spend(std::ssize(bytes)));
  Entry e;
  e.value = {.name = name, .kind = ValueKind::constant, .dtype = dtype, .dims = dims};
  const auto memory = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Weight weight{.name = std::move(name), .dtype = dtype, .shape = std::move(dims)};
  weight.slabs = {memory->data()};
  weight.owners = {memory};
  e.value.weight = std::make_shared<const Weight>(std::move(weight));
  return add(std::move(e));
}

Result<Ref> Importer::constant(const OnnxTensor& tensor, const std::string& name) {
  Entry e;
  const auto dtype = dtype_from_onnx(tensor.type);
  if (!dtype) {
    e.missing = true;
    e.blame = fmt::format("a constant of {}: this version has no such type", onnx_type_name(tensor.type));
    e.op = "Constant";
    e.node = name;
    e.raw = &tensor;
    return add(std::move(e));
  }
  e.value = {.name = name, .kind = ValueKind::constant, .dtype = *dtype, .dims = tensor.dims};
  const bool empty = std::any_of(tensor.dims.begin(), tensor.dims.end(), [](std::int64_t d) { return d == 0; });
  Weight weight{.name = name, .dtype = *dtype, .shape = tensor.dims};
  if (tensor.dims.size() > max_rank)
    return unsupported("'{}' has {} dimensions; at most {} are known", name, tensor.dims.size(), max_rank);
  // A dimension of 0 hides what the others are.
  Weight beside = weight;
  std::replace(beside.shape.begin(), beside.shape.end(), std::int64_t{0}, std::int64_t{1});
  TRY_VOID(check_constant(beside));
  const auto size = static_cast<std::size_t>(format(*dtype).block_bytes);
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data.data()) % size == 0;
  if (aligned && !empty) {
    weight.slabs = {tensor.data.data()};
    if (tensor.owner != nullptr) weight.owners = {tensor.owner};
  } else {
    const auto memory = std::make_shared<const std::vector<std::byte>>(tensor.data.begin(), tensor.data.end());
    weight.slabs = {memory->data()};
    weight.owners = {memory};
  }
  e.value.weight = std::make_shared<const Weight>(std::move(weight));
  return add(std::move(e));
}

Ref Importer::turned(std::shared_ptr<const Weight> weight) {
  Entry e;
  e.value = {.name = weight->name, .kind = ValueKind::constant, .dtype = weight->dtype};
  e.value.dims = seen_dims(*weight, true);
  e.value.transposed = true;
  e.value.weight = std::move(weight);
  return add(std::move(e));
}

Result<std::vector<Ref>> Importer::emit(Op op, const std::vector<Ref>& inputs, Attrs attrs, const std::string& name,
                                        bool as_node) {
  std::vector<const Value*> in;
  in.reserve(inputs.size());
  bool constant = !as_node;
  for (const Ref ref : inputs) {
    in.push_back(&value(ref));
    if (in.back()->elements() == 0) return emit_empty(op, inputs, attrs, name);
    constant &= in.back()->kind == ValueKind::constant;
  }
  TRY(const auto made, infer(op, attrs, in));
  std::int64_t bytes = 0;
  bool small = true;
  for (const Value& v : made) {
    bytes += std::min(bytes_in(v), max_evaluated_bytes + 1);
    small &= bytes <= (is_float(v.dtype) ? large : max_evaluated_bytes);
  }
  std::vector<Ref> refs;
  refs.reserve(made.size());
  if (constant && small && cheap(op, in)) {
    TRY_VOID(spend(bytes));
    TRY(const auto weights, evaluate(op, attrs, in));
    for (const auto& weight : weights) {
      Entry e;
      e.value = {.name = refs.empty() ? name : fmt::format("{}.{}", name, refs.size()),
                 .kind = ValueKind::constant,
                 .dtype = weight->dtype,
                 .dims = weight->shape};
      Weight named = *weight;
      named.name = e.value.name;
      e.value.weight = std::make_shared<const Weight>(std::move(named));
      refs.push_back(add(std::move(e)));
    }
    return refs;
  }
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Ref ref : inputs) ids.push_back(id_of(ref));
  for (const ValueId id : graph_.nodes(op, fresh(name, made.size()), std::move(ids), std::move(attrs))) {
    Entry e;
    e.value = graph_.value(id);
    e.id = id;
    refs.push_back(add(std::move(e)));
  }
  return refs;
}

// No graph has values without elements; in shape arithmetic they come up, and go away again.
Result<std::vector<Ref>> Importer::emit_empty(Op op, const std::vector<Ref>& inputs, const Attrs& attrs,
                                              const std::string& name) {
  if (op == Op::Concat) {
    std::vector<Ref> rest;
    for (const Ref ref : inputs)
      if (value(ref).elements() > 0) rest.push_back(ref);
    if (rest.size() <= 1) return std::vector<Ref>{rest.empty() ? inputs.front() : rest.front()};
    return emit(op, rest, attrs, name);
  }
  if (inputs.size() == 1) {
    const Value& x = value(inputs.front());
    std::vector<std::int64_t> dims = x.dims;
    if (op == Op::Identity || op == Op::Dropout) return std::vector<Ref>{inputs.front()};
    if (op == Op::Transpose) {
      const auto perm = attrs.list(Attr::perm);
      if (perm.size() != dims.size()) return bad_input("has a permutation of {} for {}", perm.size(), dims_text(dims));
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (perm[i] < 0 || perm[i] >= std::ssize(dims)) return bad_input("has axis {} of {}", perm[i], dims.size());
        dims[i] = x.dims[static_cast<std::size_t>(perm[i])];
      }
      TRY(const Ref made, constant(name, x.dtype, std::move(dims), {}));
      return std::vector<Ref>{made};
    }
    if (op == Op::Cast) {
      TRY(const Ref made, constant(name, static_cast<DType>(attrs.i(Attr::to)), std::move(dims), {}));
      return std::vector<Ref>{made};
    }
    if (op == Op::ReduceProd && x.dtype == DType::I64 && dims.size() == 1) {  // the product of nothing
      if (attrs.i(Attr::keepdims) != 0) {
        dims = {1};
      } else {
        dims.clear();
      }
      TRY(const Ref made, constant(name, DType::I64, std::move(dims), bytes_of({1})));
      return std::vector<Ref>{made};
    }
  }
  return unsupported("works on a value without elements");
}

void Importer::blame(Entry& entry) {
  if (entry.blame.empty()) return;
  problems_.push_back({.op = entry.op, .what = std::move(entry.blame), .node = entry.node});
  entry.blame.clear();
}

Error Importer::problems() const {
  // By operator and reason, in the order of the file.
  std::vector<std::pair<const Problem*, std::vector<const std::string*>>> groups;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> index;
  for (const Problem& each : problems_) {
    const auto [it, fresh] =
        index.emplace(std::pair<std::string_view, std::string_view>{each.op, each.what}, groups.size());
    if (fresh) groups.emplace_back(&each, std::vector<const std::string*>{});
    groups[it->second].second.push_back(&each.node);
  }
  std::string text = fmt::format("{} node{} cannot be imported", problems_.size(), problems_.size() == 1 ? "" : "s");
  for (const auto& [problem, nodes] : groups) {
    text += fmt::format("; {}: {}; at", problem->op, problem->what);
    for (const std::string* node : nodes) text += fmt::format("{} '{}'", node == nodes.front() ? "" : ",", *node);
  }
  return {Code::unsupported, std::move(text)};
}

Result<void> Importer::check_model() {
  const auto opset = model_.opsets.find("");
  if (opset == model_.opsets.end()) return bad_input("no opset of ai.onnx is named");
  opset_ = opset->second;
  if (opset_ < oldest_opset || opset_ > newest_opset)
    return unsupported("opset {} of ai.onnx; {} to {} are imported: export again with opset_version=17", opset_,
                       oldest_opset, newest_opset);
  for (const OnnxFunction& each : model_.functions) functions_.emplace(each.domain, each.name);
  if (!model_.graph.sparse_initializers.empty())
    return unsupported("{} sparse initializers, the first '{}': export dense ones",
                       model_.graph.sparse_initializers.size(), model_.graph.sparse_initializers.front());
  return {};
}

Result<void> Importer::initializers() {
  for (const OnnxTensor& tensor : model_.graph.initializers) {
    TRY(const Ref ref, constant(tensor, tensor.name));
    TRY_VOID(define(tensor.name, ref));
  }
  return {};
}

Result<void> Importer::translate(const OnnxNode& node) {
  std::vector<Ref> inputs;
  inputs.reserve(node.inputs.size());
  bool missing = false;
  for (const std::string& name : node.inputs) {
    inputs.push_back(-1);
    if (name.empty()) continue;
    const auto it = named_.find(name);
    if (it == named_.end()) return bad_input("{} takes '{}', which nothing before it makes", where(node), name);
    inputs.back() = it->second;
    Entry& e = entries_[static_cast<std::size_t>(it->second)];
    if (e.raw != nullptr && takes_codes(node.domain, node.op_type)) continue;
    missing |= e.missing;
    blame(e);
  }
  const std::string_view name = node.name.empty() && !node.outputs.empty() ? node.outputs.front() : node.name;
  const std::string op = node.domain.empty() ? node.op_type : fmt::format("{}.{}", node.domain, node.op_type);
  const Translation translation = translation_of(node.domain, node.op_type);
  std::string what;
  if (functions_.contains({node.domain, node.op_type})) {
    what =
        "a function of the file's own; the nearest form is its nodes in its place (torch.onnx.export: optimize=True)";
  } else if (translation == nullptr) {
    what = fmt::format("not an operator of this version; {}", nearest_form(node.domain, node.op_type));
  } else if (!missing) {
    Call call(*this, node, std::move(inputs));
    translation(call);
    if (!call.failed()) return {};
    if (call.error().code != Code::unsupported)
      return Error{call.error().code, fmt::format("{}: {}", where(node), call.error().message)};
    what = call.error().message;
  }
  if (!what.empty()) problems_.push_back({.op = op, .what = std::move(what), .node = std::string(name)});
  for (const std::string& output : node.outputs) {
    if (output.empty() || named_.contains(output)) continue;
    Entry e;
    e.missing = true;
    TRY_VOID(define(output, add(std::move(e))));
  }
  return {};
}

Result<void> Importer::outputs(ImportedOnnx& made) {
  std::set<std::string_view> seen;
  for (const OnnxValue& output : model_.graph.outputs) {
    const auto it = named_.find(output.name);
    if (it == named_.end()) return bad_input("nothing makes the output '{}'", output.name);
    if (!seen.insert(output.name).second) return bad_input("the output '{}' is named twice", output.name);
    Entry& e = entries_[static_cast<std::size_t>(it->second)];
    blame(e);
    if (e.missing) continue;
    if (e.value.elements() == 0) return unsupported("the output '{}' has no elements", output.name);
    Ref ref = it->second;
    if (e.value.kind != ValueKind::computed) {
      TRY(const auto copied, emit(Op::Identity, {ref}, {}, output.name, true));
      ref = copied.front();
    }
    graph_.add_output(id_of(ref));
    made.outputs.push_back(output.name);
  }
  if (model_.graph.outputs.empty()) return bad_input("there is no output");
  return {};
}

Result<ImportedOnnx> Importer::run(const OnnxPins& pins) {
  TRY_VOID(check_model());
  ImportedOnnx made;
  TRY(const auto inputs, pin_inputs(model_.graph, pins));
  for (const PinnedInput& input : inputs) {
    if (input.value->name.empty()) return bad_input("an input has no name");
    if (graph_.find(input.value->name) >= 0) return bad_input("two inputs are named '{}'", input.value->name);
    if (std::find(input.dims.begin(), input.dims.end(), 0) != input.dims.end()) {
      // A cache that nothing is in yet: no value of a graph, and gone where tokens are appended to it.
      TRY(const Ref empty, constant(input.value->name, input.dtype, input.dims, {}));
      TRY_VOID(define(input.value->name, empty));
      continue;
    }
    Entry e;
    e.id = graph_.input(input.value->name, input.dtype, input.dims);
    e.value = graph_.value(e.id);
    TRY_VOID(define(input.value->name, add(std::move(e))));
    made.inputs.push_back(input.value->name);
  }
  if (inputs.empty()) return bad_input("there is no input");
  TRY_VOID(initializers());
  for (const OnnxNode& node : model_.graph.nodes) TRY_VOID(translate(node));
  TRY_VOID(outputs(made));
  if (!problems_.empty()) return problems();
  for (const auto& [text, count] : notes_)
    made.notes.push_back(count == 1 ? text : fmt::format("{} (of {} nodes)", text, count));
  made.graph = std::move(graph_);
  TRY_VOID(verify(made.graph));
  return made;
}

}  // namespace knapsack::onnx
