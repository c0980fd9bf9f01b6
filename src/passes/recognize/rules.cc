#include "passes/recognize/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/evaluate.h"

namespace knapsack::recognition {
namespace {

Form unknown(std::string why) { return Form{.kind = Kind::unknown, .why = std::move(why)}; }

Form side_form(std::shared_ptr<const Value> value) { return Form{.kind = Kind::side, .side = std::move(value)}; }

}  // namespace

Rules::Rules(const Graph& graph, const Inputs& inputs, Builder& builder, Angles& angles)
    : graph_(graph), uses_(graph), inputs_(inputs), builder_(builder), angles_(angles), forms_(graph.values().size()) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& v = graph.values()[i];
    if (v.kind != ValueKind::constant) continue;
    forms_[i] = side_form(std::make_shared<const Value>(v));
    if (v.weight->slabs.size() != 1) forms_[i].kind = Kind::matrix;
  }
  for (const auto& [id, value] : inputs.known) forms_[static_cast<std::size_t>(id)] = side_form(value);
  for (const ValueId id : inputs.caches) {
    const Value& v = graph.value(id);
    Grid grid{.dims = v.dims, .axis = inputs.axes.at(id), .along = Along::past, .parts = {}};
    grid.parts = {{.columns = columns_of(id, v.elements() / grid.length())}};
    forms_[static_cast<std::size_t>(id)] = grid_form(std::move(grid));
  }
}

void Rules::run() {
  for (const Node& node : graph_.list()) {
    const Form* hindered = nullptr;
    for (const ValueId id : node.inputs)
      if (id != inputs_.ids && form(id).kind == Kind::unknown && hindered == nullptr) hindered = &form(id);
    Result<Forms> made = Forms{};
    if (hindered != nullptr) {
      made = Forms(node.outputs.size(), *hindered);
    } else {
      builder_.at(node.name);
      made = forms_of(node);
      if (!made)
        made =
            Forms(node.outputs.size(),
                  unknown(fmt::format("node '{}' ({}): {}", node.name, op_info(node.op).text, made.error().message)));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      forms_[static_cast<std::size_t>(node.outputs[i])] = std::move((*made)[i]);
  }
}

Result<Rules::Forms> Rules::forms_of(const Node& node) {
  const auto all_known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
    return form(id).kind == Kind::side || form(id).kind == Kind::matrix;
  });
  if (all_known) return side(node);
  if (auto routed = routing(node)) return std::move(*routed);
  const auto one = [](Result<Form> form) -> Result<Forms> {
    if (!form) return form.error();
    return Forms{std::move(*form)};
  };
  switch (node.op) {
    case Op::Gather:
      return one(gathered(node));
    case Op::Reshape:
    case Op::Transpose:
    case Op::Concat:
    case Op::Slice:
    case Op::Split:
    case Op::Squeeze:
    case Op::Unsqueeze:
    case Op::Expand:
      return moved(node);
    case Op::Identity:
    case Op::Dropout:
      return Forms{in(node, 0)};
    case Op::Cast:
      if (in(node, 0).kind != Kind::probs_nan && !is_float(static_cast<DType>(node.attrs.i(Attr::to))))
        return unsupported("activations become whole numbers");
      return Forms{in(node, 0)};
    case Op::MatMul:
    case Op::Gemm:
      return one(product(node));
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Pow:
    case Op::Max:
    case Op::Min:
      return one(binary(node));
    case Op::ReduceMean:
    case Op::ReduceSum:
      return one(reduced(node));
    case Op::Softmax:
      return one(softmax(node));
    case Op::Where:
      return one(where(node));
    case Op::ScatterND: {
      const Form& past = in(node, 0);
      const Form& now = in(node, 2);
      if (is_rows(past) && past.grid->along == Along::cache && is_known(in(node, 1)) && is_rows(now))
        return one(again(past, now, *in(node, 1).side));
      if (!is_rows(past) || past.grid->along != Along::past || !is_known(in(node, 1)) || !is_rows(now) ||
          now.grid->along != Along::step)
        return unsupported("it writes into something else than the cache");
      TRY_VOID(in_place(*past.grid, *in(node, 1).side));
      return one(appended(node, past, now));
    }
    case Op::IsNaN: {
      if (in(node, 0).kind != Kind::probs) return unsupported("it asks for more than probabilities");
      Form made = in(node, 0);
      made.kind = Kind::probs_nan;
      return Forms{std::move(made)};
    }
    default:
      return one(unary(node));
  }
}

Result<Rules::Forms> Rules::side(const Node& node) {
  std::vector<const Value*> operands;
  bool large = false;
  for (const ValueId id : node.inputs) {
    operands.push_back(form(id).side.get());
    const Value& v = *operands.back();
    const bool follows = graph_.value(id).kind == ValueKind::input || computed_.contains(v.weight.get());
    large = large || v.weight->slabs.size() != 1 || v.weight->bytes() > (follows ? side_bytes : large_bytes) ||
            v.transposed;
  }
  const Value& first = *operands[0];
  // Matrices are turned and read as another type where they lie.
  const auto turns = [&] {
    const auto perm = node.attrs.list(Attr::perm);
    const auto rank = perm.size();
    for (std::size_t i = 0; i + 2 < rank; ++i)
      if (perm[i] != static_cast<std::int64_t>(i)) return false;
    return rank >= 2 && perm[rank - 1] == static_cast<std::int64_t>(rank - 2);
  };
  if (node.op == Op::Transpose && large && turns()) {
    Value seen = first;
    seen.transposed = !seen.transposed;
    std::swap(seen.dims[seen.dims.size() - 2], seen.dims[seen.dims.size() - 1]);
    return Forms{Form{.kind = form(node.inputs[0]).kind, .side = std::make_shared<const Value>(std::move(seen))}};
  }
  if (node.op == Op::Identity || (node.op == Op::Cast && large && is_float(static_cast<DType>(node.attrs.i(Attr::to)))))
    return Forms{form(node.inputs[0])};
  // Some rows of a table, however long it is.
  const bool rows = node.op == Op::Gather && node.attrs.i(Attr::axis) == 0 && first.weight->slabs.size() == 1 &&
                    !first.transposed && format(first.dtype).block == 1 &&
                    out(node).elements() * format(first.dtype).block_bytes <= large_bytes;
  if (node.op == Op::Gather) angles_.add_table(first);
  if (large && !rows)
    return unsupported("it computes with constants of more than {} MiB or masks of more than {}", large_bytes >> 20,
                       side_bytes >> 20);
  TRY(const auto made, evaluate(node.op, node.attrs, operands));
  if (node.op == Op::Cos || node.op == Op::Sin) angles_.add(graph_, uses_, node, first);
  Forms forms;
  for (std::size_t i = 0; i < made.size(); ++i) {
    Value value = out(node, i);
    value.kind = ValueKind::constant;
    value.weight = made[i];
    computed_.insert(made[i].get());
    forms.push_back(side_form(std::make_shared<const Value>(std::move(value))));
  }
  return forms;
}

Result<Form> Rules::appended(const Node& node, const Form& past, const Form& now) {
  const Grid& a = *past.grid;
  const Grid b = now.grid->seen_along(a.axis);
  if (a.axis != b.axis || (node.op == Op::Concat && node.attrs.i(Attr::axis) != a.axis) || a.reduced() != b.reduced())
    return unsupported("it appends something else than the step's rows to the cache");
  if (!whole_keys_ && b.dims.size() == 4 && b.axis == 2) {
    double factor = 1;
    TRY(const Grid settled, builder_.settled(b, factor));
    whole_keys_ = latent_keys(settled.parts[0].columns, b.dims[1]).has_value();
  }
  TRY(const ValueId x, builder_.rows(b, now.factor));
  const Column& first = a.parts[0].columns[0];
  // The state has the columns in the order of the input's elements.
  std::vector<Column> columns = a.parts[0].columns;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i].base != first.base || columns[i].col != static_cast<std::int32_t>(i))
      return unsupported("its cache is moved about before tokens are appended");
  const ValueId write = builder_.cache(x, graph_.value(first.base).name);
  for (Column& column : columns) column.base = write;
  return grid_form({.dims = out(node).dims, .axis = a.axis, .along = Along::cache, .parts = {{.columns = columns}}});
}

// What was appended is written where it is already: GroupQueryAttention's cache, for sequences that may be shorter.
Result<Form> Rules::again(const Form& past, const Form& now, const Value& places) {
  TRY_VOID(in_place(*past.grid, places));
  const Node* write = builder_.maker(past.grid->parts[0].columns[0].base);
  TRY(const ValueId x, builder_.rows(now.grid->seen_along(past.grid->axis), now.factor));
  if (write == nullptr || write->op != Op::kv_write || write->inputs[0] != x)
    return unsupported("it writes something else into the cache than what was appended");
  return past;
}

// places [.., rank]: where each row of the step goes in the cache.
Result<void> Rules::in_place(const Grid& past, const Value& places) const {
  const auto all = numbers_of(places);
  const auto depth = static_cast<std::size_t>(past.axis + 1);
  if (all.empty() || std::ssize(places.dims) != past.axis + 2 || places.dims.back() != past.axis + 1)
    return unsupported("rows of the cache are written somewhere that is not known");
  const std::vector<std::int64_t> dims(places.dims.begin(), places.dims.end() - 1);
  std::vector<std::int64_t> at(depth, 0);
  for (std::size_t row = 0; row * depth < all.size(); ++row) {
    for (std::size_t d = 0; d < depth; ++d) {
      const std::int64_t wanted = at[d] + (d + 1 == depth ? inputs_.past : 0);
      if (static_cast<std::int64_t>(all[row * depth + d]) != wanted)
        return unsupported("rows of the cache are written elsewhere than behind the past");
    }
    for (std::size_t d = depth; d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
  return {};
}

Result<Rules::Forms> Rules::moved(const Node& node) {
  if (node.op == Op::Concat && node.inputs.size() == 2 && is_rows(in(node, 0)) && is_rows(in(node, 1)) &&
      in(node, 0).grid->along == Along::past && in(node, 1).grid->along == Along::step) {
    TRY(Form form, appended(node, in(node, 0), in(node, 1)));
    return Forms{std::move(form)};
  }
  std::vector<Grid> scaled;  // with factors of their own
  std::vector<const Grid*> grids;
  double factor = in(node, 0).factor;
  const bool same =
      std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return form(id).factor == factor; });
  scaled.reserve(node.inputs.size());
  const Form* function = nullptr;
  for (const ValueId id : node.inputs) {
    const Form& f = form(id);
    if (f.kind == Kind::function && node.inputs.size() == 1) {
      function = &f;
    } else if (!is_rows(f)) {
      return unsupported("what it moves is no activation");
    }
    if (same) {
      grids.push_back(f.grid.get());
      continue;
    }
    scaled.push_back(*f.grid);
    for (Part& part : scaled.back().parts) {
      if (part.coefficients.empty())
        part.coefficients.resize(part.columns.size() * static_cast<std::size_t>(f.grid->length()), 1.0F);
      for (float& c : part.coefficients) c = static_cast<float>(c * f.factor);
    }
    grids.push_back(&scaled.back());
  }
  if (!same) factor = 1;
  std::vector<const Value*> outputs;
  outputs.reserve(node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) outputs.push_back(&out(node, i));
  Moved moved = move(node, grids, outputs, nullptr);
  if (moved.grids.empty()) return unsupported("{}", moved.why);
  Forms forms;
  for (Grid& grid : moved.grids) {
    if (grid.along == Along::selected && grids[0]->along == Along::step) {
      if (!grid.plain()) return unsupported("it takes the last token of what is rotated");
      std::map<ValueId, ValueId> last;
      for (Column& column : grid.parts[0].columns) {
        auto [at, fresh] = last.try_emplace(column.base, -1);
        if (fresh) at->second = builder_.node(Op::select_rows, {column.base});
        column.base = at->second;
      }
    }
    Form form = grid_form(std::move(grid), factor);
    if (function != nullptr) {
      form.kind = Kind::function;
      form.f = function->f;
    }
    forms.push_back(std::move(form));
  }
  return forms;
}

Result<Form> Rules::gathered(const Node& node) {
  const Form& index = form(node.inputs[1]);
  if (node.inputs[1] == inputs_.ids) {
    const Form& table = in(node, 0);
    if (table.kind != Kind::side && table.kind != Kind::matrix) return unsupported("token ids choose rows of no table");
    const Value& v = *table.side;
    if (v.dims.size() != 2 || v.transposed || node.attrs.i(Attr::axis) != 0)
      return unsupported("a table of another shape");
    ValueId ids = builder_.graph().find("ids");
    if (ids < 0) ids = builder_.graph().input("ids", DType::I32, {tokens_dim, 1});
    const ValueId made = builder_.node(Op::embed, {ids, builder_.constant(v.weight)}, Attrs{}.set(Attr::scale, 1.0));
    Grid grid{.dims = out(node).dims, .axis = 1, .parts = {{.columns = columns_of(made, v.dims[1])}}};
    return grid_form(std::move(grid));
  }
  if (!is_rows(in(node, 0)) || !is_known(index)) return unsupported("it takes elements that are chosen while it runs");
  const Grid& grid = *in(node, 0).grid;
  if (node.attrs.i(Attr::axis) == grid.axis) {
    const auto place = scalar_of(*index.side);
    if (!place || grid.along != Along::step || index.side->elements() != 1)
      return unsupported("it chooses among tokens");
    const auto at = static_cast<std::int64_t>(*place);
    if (at != -1 && at != grid.length() - 1) return unsupported("it chooses among tokens");
    return unsupported("it takes the last token's row away from the others' dimension");
  }
  const Moved moved = move(node, {&grid}, {&out(node)}, index.side.get());
  if (moved.grids.empty()) return unsupported("{}", moved.why);
  return grid_form(moved.grids[0], in(node, 0).factor);
}

Form Rules::made(ValueId base, std::vector<std::int64_t> dims, std::int64_t axis, const Grid& like) const {
  Grid grid{.dims = std::move(dims), .axis = axis, .along = like.along, .expert = like.expert, .parts = {}};
  grid.parts = {{.columns = columns_of(base, builder_.columns(base))}};
  return grid_form(std::move(grid));
}

std::optional<Form> Rules::as_function(const Form& f) {
  if (f.kind == Kind::function) return f;
  if (f.kind != Kind::grid) return std::nullopt;
  Form made = f;
  made.kind = Kind::function;
  made.f = through(activation_points(), [&](double x) { return x * f.factor; });
  made.factor = 1;
  return made;
}

Result<ValueId> Rules::rows(const Form& form) {
  if (form.kind == Kind::grid) return builder_.rows(*form.grid, form.factor);
  if (form.kind == Kind::routed) return routed_rows(form);
  if (form.kind != Kind::function) return unsupported("what it reads is no activation");
  if (const auto factor = as_factor(form.f)) return builder_.rows(*form.grid, neat(*factor));
  if (const auto cap = as_softcap(form.f)) {
    TRY(const ValueId x, builder_.rows(*form.grid, std::abs(cap->scale - 1) < 1e-6 ? 1.0 : neat(cap->scale)));
    return builder_.node(Op::softcap, {x}, Attrs{}.set(Attr::softcap, neat(cap->cap)));
  }
  return unsupported("a function of one number that no op has");
}

}  // namespace knapsack::recognition
