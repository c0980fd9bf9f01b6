#include "passes/recognize/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/evaluate.h"

namespace knapsack::recognition {
namespace {

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

bool is_float(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
}

// A number that came out of float32, as people write it.
double neat(double x) { return std::stod(fmt::format("{}", static_cast<float>(x))); }

Form unknown(std::string why) { return Form{.kind = Kind::unknown, .why = std::move(why)}; }

Form grid_form(Grid grid, double factor = 1) {
  return Form{.kind = Kind::grid, .grid = std::make_shared<const Grid>(std::move(grid)), .factor = factor};
}

Form side_form(std::shared_ptr<const Value> value) { return Form{.kind = Kind::side, .side = std::move(value)}; }

bool is_known(const Form& f) { return f.kind == Kind::side; }

// A vector along the last dimension.
bool is_vector(const Value& v, std::int64_t size) {
  return v.elements() == size && (v.dims.empty() || v.dims.back() == size);
}

std::shared_ptr<const Value> known_input(const Value& v, std::int64_t tokens, std::int64_t past) {
  const std::int64_t count = v.elements();
  std::vector<double> numbers(static_cast<std::size_t>(count), 1.0);
  if (has(v.name, "position")) {
    for (std::int64_t i = 0; i < count; ++i)
      numbers[static_cast<std::size_t>(i)] = static_cast<double>(past + i % tokens);
  } else if (v.dims.size() > 2) {  // a mask for each token
    const std::int64_t length = v.dims.back();
    for (std::int64_t i = 0; i < count; ++i) {
      const bool visible = i % length <= past + i / length % tokens;
      numbers[static_cast<std::size_t>(i)] = v.dtype == DType::BOOL ? (visible ? 1.0 : 0.0) : visible ? 0.0 : -1e9;
    }
  }
  return side_value(v.name, v.dtype, v.dims, numbers);
}

}  // namespace

Result<Inputs> inputs_of(const Graph& graph) {
  Inputs found;
  std::vector<ValueId> others;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& v = graph.values()[i];
    const auto id = static_cast<ValueId>(i);
    if (v.kind == ValueKind::state) return unsupported("it is a decoder already");
    if (v.kind != ValueKind::input) continue;
    if (has(v.name, "mask") || has(v.name, "position")) {
      others.push_back(id);
      if (has(v.name, "mask")) length = v.cols();
    } else if (is_float(v.dtype) && v.dims.size() >= 3) {
      found.caches.push_back(id);
    } else if ((v.dtype == DType::I64 || v.dtype == DType::I32) && v.dims.size() == 2 && found.ids < 0) {
      found.ids = id;
    } else {
      return unsupported("input '{}' is neither token ids, positions, a mask nor a cache", v.name);
    }
  }
  if (found.ids < 0) return unsupported("no input has token ids");
  const Value& ids = graph.value(found.ids);
  if (ids.dims[0] != 1) return unsupported("input '{}' has a batch of {}; pin it to 1", ids.name, ids.dims[0]);
  found.tokens = ids.dims[1];
  std::vector<ValueId> whole;  // of a context's length: tokens are written into them
  for (const Node& node : graph.list()) {
    const bool is_cache = !node.inputs.empty() &&
                          std::find(found.caches.begin(), found.caches.end(), node.inputs[0]) != found.caches.end();
    if (is_cache && node.op == Op::Concat && node.inputs.size() == 2)
      found.axes[node.inputs[0]] = node.attrs.i(Attr::axis);
    if (is_cache && node.op == Op::ScatterND) {
      found.axes[node.inputs[0]] = graph.value(node.inputs[1]).cols() - 1;
      whole.push_back(node.inputs[0]);
    }
  }
  for (const ValueId id : found.caches) {
    const auto axis = found.axes.find(id);
    if (axis == found.axes.end())
      return unsupported("input '{}' is no cache that tokens are appended to", graph.value(id).name);
    std::int64_t past = graph.value(id).dims[static_cast<std::size_t>(axis->second)];
    if (std::find(whole.begin(), whole.end(), id) != whole.end()) past -= found.tokens;
    if (found.past != 0 && past != found.past) return unsupported("its caches have different lengths");
    found.past = past;
  }
  if (found.past < 0) return unsupported("a step of {} tokens does not fit its caches", found.tokens);
  if (found.caches.empty() && length > found.tokens)
    return unsupported("a mask of {} for {} tokens, and no cache", length, found.tokens);
  if (found.past + found.tokens < 2) return unsupported("one token without a past; pin two or more");
  for (const ValueId id : others) found.known[id] = known_input(graph.value(id), found.tokens, found.past);
  return found;
}

Rules::Rules(const Graph& graph, const Inputs& inputs, Builder& builder, Angles& angles)
    : graph_(graph), inputs_(inputs), builder_(builder), angles_(angles), forms_(graph.values().size()) {
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
    large = large || v.weight->slabs.size() != 1 || v.weight->bytes() > large_bytes || v.transposed;
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
  if (large) return unsupported("it computes with constants of more than {} MiB", large_bytes >> 20);
  TRY(const auto made, evaluate(node.op, node.attrs, operands));
  if (node.op == Op::Cos || node.op == Op::Sin) angles_.add(graph_, node, first);
  Forms forms;
  for (std::size_t i = 0; i < made.size(); ++i) {
    Value value = out(node, i);
    value.kind = ValueKind::constant;
    value.weight = made[i];
    forms.push_back(side_form(std::make_shared<const Value>(std::move(value))));
  }
  return forms;
}

Result<Form> Rules::appended(const Node& node, const Form& past, const Form& now) {
  const Grid& a = *past.grid;
  const Grid b = now.grid->seen_along(a.axis);
  if (a.axis != b.axis || (node.op == Op::Concat && node.attrs.i(Attr::axis) != a.axis) || a.reduced() != b.reduced())
    return unsupported("it appends something else than the step's rows to the cache");
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
    const ValueId made =
        builder_.node(Op::embed, {ids, builder_.constant(Builder::as_it_is(v))}, Attrs{}.set(Attr::scale, 1.0));
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

// ---- two operands

Result<Form> Rules::binary(const Node& node) {
  const Form& a = in(node, 0);
  const Form& b = in(node, 1);
  if (is_known(a)) return with_side(node, b, *a.side, true);
  if (is_known(b)) return with_side(node, a, *b.side, false);
  if (node.op == Op::Sub) {
    Form negative = b;
    if (b.kind == Kind::grid) {
      negative.factor = -b.factor;
      return plus(a, negative);
    }
  }
  if (node.op == Op::Add) return plus(a, b);
  if (node.op == Op::Mul) return times(a, b);
  // x / sqrt(mean): a product with what is one over it.
  if (node.op == Op::Div && b.kind == Kind::row_norm) {
    Form inverse = b;
    inverse.f = through(b.f, [](double x) { return 1 / x; });
    return times(a, inverse);
  }
  return unsupported("of two activations");
}

Result<Form> Rules::with_side(const Node& node, const Form& x, const Value& side, bool first) {
  const auto number = scalar_of(side);
  const auto combined = [&](const Samples& f) {
    Samples constant{};
    constant.fill(*number);
    return first ? combine(node.op, constant, f) : combine(node.op, f, constant);
  };
  switch (x.kind) {
    case Kind::scores:
      if (number && node.op != Op::Add && node.op != Op::Sub) {
        Form made = x;
        const auto f = combined(x.f);
        if (!f) return unsupported("of scores");
        made.f = *f;
        return made;
      }
      if (node.op == Op::Add) return masked(x, side, false);
      return unsupported("of scores");
    case Kind::row_norm:
    case Kind::function: {
      if (!number) return unsupported("a function of activations and a constant that is no single number");
      const auto f = combined(x.f);
      if (!f) return unsupported("of activations");
      Form made = x;
      made.f = *f;
      return made;
    }
    case Kind::grid:
      return grid_with_side(node, x, side);
    default:
      return unsupported("what it reads is no activation");
  }
}

Result<Form> Rules::grid_with_side(const Node& node, const Form& x, const Value& side) {
  const auto number = scalar_of(side);
  const bool on_the_left = in(node, 0).kind == Kind::side;
  if (number && (node.op == Op::Mul || (node.op == Op::Div && !on_the_left))) {
    Form made = x;
    made.factor = node.op == Op::Mul ? x.factor * *number : x.factor / *number;
    return made;
  }
  const Grid& grid = *x.grid;
  const std::int64_t last = grid.last();
  const bool whole = grid.plain() && std::abs(x.factor - 1) < 1e-12 &&
                     builder_.columns(grid.parts[0].columns[0].base) == grid.elements() &&
                     grid.parts[0].columns == columns_of(grid.parts[0].columns[0].base, grid.elements());
  const ValueId base = grid.parts[0].columns[0].base;
  const Node* maker = grid.along == Along::past || grid.along == Along::cache ? nullptr : builder_.maker(base);
  if (!number && is_vector(side, last) && whole && maker != nullptr && out(node).dims == grid.dims) {
    if (node.op == Op::Mul && maker->op == Op::rms_norm && maker->inputs.size() == 1 &&
        maker->attrs.i(Attr::width) == last) {
      const Node norm = *maker;
      TRY(const auto weight, builder_.vector(side));
      const ValueId made = builder_.node(Op::rms_norm, {norm.inputs[0], builder_.constant(weight)}, norm.attrs);
      return this->made(made, grid.dims, grid.axis, grid);
    }
    if (node.op == Op::Add && maker->op == Op::linear && maker->inputs.size() == 2 && last == grid.elements()) {
      const Node product = *maker;
      TRY(const auto bias, builder_.vector(side));
      const ValueId made = builder_.node(Op::linear, {product.inputs[0], product.inputs[1], builder_.constant(bias)});
      return this->made(made, grid.dims, grid.axis, grid);
    }
  }
  if (node.op == Op::Mul && !number && grid.along != Along::cache && grid.along != Along::past &&
      out(node).dims == grid.dims) {
    const auto coefficients = spread(side, grid);
    if (coefficients.empty()) return unsupported("a constant of another shape");
    Grid made = grid;
    for (Part& part : made.parts) {
      if (part.coefficients.empty()) part.coefficients.resize(coefficients.size(), 1.0F);
      for (std::size_t i = 0; i < coefficients.size(); ++i)
        part.coefficients[i] = static_cast<float>(part.coefficients[i] * coefficients[i] * x.factor);
    }
    return grid_form(std::move(made));
  }
  if (!number) return unsupported("with a constant that is no single number");
  return with_side(node, *as_function(x), side, on_the_left);
}

Result<Form> Rules::plus(const Form& a, const Form& b) {
  if (a.kind == Kind::routed && b.kind == Kind::routed) {
    Form sum = a;
    if (a.grid != nullptr || b.grid != nullptr) return unsupported("experts beside others");
    if (!(a.choice == b.choice)) return unsupported("experts that different routers chose");
    for (const auto& [expert, y] : b.experts)
      if (!sum.experts.emplace(expert, y).second) return unsupported("expert {} is added twice", expert);
    return sum;
  }
  const auto functions = [&] { return a.kind == Kind::function || b.kind == Kind::function; };
  if (functions()) {
    const auto f = as_function(a);
    const auto g = as_function(b);
    if (f && g && f->grid->same(*g->grid)) {
      Form made = *f;
      made.f = *combine(Op::Add, f->f, g->f);
      return made;
    }
  }
  if (a.kind == Kind::grid && b.kind == Kind::grid && (!a.grid->plain() || !b.grid->plain())) {
    const Grid& x = *a.grid;
    const Grid& y = *b.grid;
    if (x.dims != y.dims || x.axis != y.axis || x.along != y.along || x.along == Along::cache)
      return unsupported("a sum of different shapes");
    Grid sum = x;
    sum.parts.clear();
    for (const auto* f : {&a, &b}) {
      for (Part part : f->grid->parts) {
        if (part.coefficients.empty())
          part.coefficients.resize(part.columns.size() * static_cast<std::size_t>(x.length()), 1.0F);
        for (float& c : part.coefficients) c = static_cast<float>(c * f->factor);
        sum.parts.push_back(std::move(part));
      }
    }
    if (sum.parts.size() > 4) return unsupported("a sum of too many terms");
    return grid_form(std::move(sum));
  }
  const auto dims_of = [](const Form& f) {
    return f.kind == Kind::routed || f.grid == nullptr ? f.dims : f.grid->dims;
  };
  const Form& like = a.kind == Kind::routed ? b : a;
  if (like.kind != Kind::grid && like.kind != Kind::function && like.kind != Kind::routed)
    return unsupported("what it reads is no activation");
  if (dims_of(a) != dims_of(b)) return unsupported("a sum of different shapes");
  TRY(const ValueId x, rows(a));
  TRY(const ValueId y, rows(b));
  if (like.kind == Kind::routed) return unsupported("of two routers");
  return made(builder_.node(Op::add, {x, y}), like.grid->dims, like.grid->axis, *like.grid);
}

Result<Form> Rules::times(const Form& a, const Form& b) {
  if (a.kind == Kind::row_norm && b.kind != Kind::row_norm) return times(b, a);
  const auto f = as_function(a);
  if (!f) return unsupported("what it reads is no activation");
  if (b.kind == Kind::row_norm) {
    const auto root = as_inverse_root(b.f);
    if (!root) return unsupported("a function of the mean square that is no norm");
    const auto factor = as_factor(f->f);
    if (!factor || !f->grid->same(*b.grid)) return unsupported("a norm of something else");
    // The scale of what is normed moves into it; epsilon is told for the unscaled.
    TRY(const ValueId x, builder_.rows(*f->grid, neat(std::abs(*factor))));
    const double scale = root->factor * *factor;
    const ValueId normed = builder_.node(Op::rms_norm, {x},
                                         Attrs{}
                                             .set(Attr::eps, neat(root->eps * *factor * *factor))
                                             .set(Attr::offset, 0.0)
                                             .set(Attr::width, f->grid->last()));
    Form form = made(normed, f->grid->dims, f->grid->axis, *f->grid);
    if (std::abs(scale - 1) > 1e-6) form.factor = scale;
    return form;
  }
  const auto g = as_function(b);
  if (!g) return unsupported("what it reads is no activation");
  if (f->grid->same(*g->grid)) {
    Form made = *f;
    made.f = *combine(Op::Mul, f->f, g->f);
    return made;
  }
  // act(gate) * up, or one of them times a sigmoid for the whole row.
  for (const auto& [gate, up] : {std::pair(&*f, &*g), std::pair(&*g, &*f)}) {
    const auto factor = as_factor(up->f);
    if (!factor) continue;
    const auto act = as_activation(gate->f);
    if (act && gate->grid->dims == up->grid->dims) {
      TRY(const ValueId x, builder_.rows(*gate->grid, 1));
      TRY(const ValueId y, builder_.rows(*up->grid, neat(*factor)));
      return made(builder_.node(Op::gated_act, {x, y}, Attrs{}.set(Attr::act, *act)), up->grid->dims, up->grid->axis,
                  *up->grid);
    }
    if (gate->grid->last() == 1 && gate->grid->elements() == 1 && is_sigmoid(gate->f)) {
      TRY(const ValueId x, builder_.rows(*up->grid, neat(*factor)));
      TRY(const ValueId y, builder_.rows(*gate->grid, 1));
      return made(builder_.node(Op::sigmoid_scale, {x, y}), up->grid->dims, up->grid->axis, *up->grid);
    }
  }
  return unsupported("a product of two activations that no op has");
}

// ---- one operand

Result<Form> Rules::unary(const Node& node) {
  const Form& x = in(node, 0);
  if (node.op == Op::Neg && x.kind == Kind::grid) {
    Form made = x;
    made.factor = -x.factor;
    return made;
  }
  Form made = x;
  if (x.kind == Kind::grid) {
    made = *as_function(x);
  } else if (x.kind != Kind::function && x.kind != Kind::row_norm && x.kind != Kind::scores) {
    return unsupported("no rule for it here");
  }
  const auto f = map(node.op, node.attrs, made.f);
  if (!f) return unsupported("no rule for it");
  made.f = *f;
  return made;
}

Result<Form> Rules::reduced(const Node& node) {
  const Form& x = in(node, 0);
  const auto axes = node.attrs.list(Attr::axes);
  if (x.kind != Kind::function || axes.size() != 1 || axes[0] != std::ssize(x.grid->dims) - 1 ||
      node.attrs.i(Attr::keepdims) == 0 || axes[0] == x.grid->axis)
    return unsupported("a mean of something else than squares along the last dimension");
  // Squares, of x times a factor perhaps.
  const double factor = std::sqrt(x.f[0]) / std::abs(activation_points()[0]);
  if (!(factor > 0) || !is_square(through(x.f, [&](double v) { return v / (factor * factor); })))
    return unsupported("a mean of something else than squares");
  const double times = node.op == Op::ReduceSum ? static_cast<double>(x.grid->last()) : 1.0;
  Form made{.kind = Kind::row_norm, .grid = x.grid};
  made.f = through(square_points(), [&](double m) { return m * factor * factor * times; });
  return made;
}

// ---- products and attention

Result<Form> Rules::linear(const Node& node, const Form& x, const Value& weight, const Value* bias, bool rows) {
  if (weight.dims.size() != 2) {
    if (bias != nullptr || rows) return unsupported("a matrix of {} dimensions", weight.dims.size());
    return batched(node, x, weight);
  }
  TRY(const ValueId in, this->rows(x));
  const Grid& grid = *x.grid;
  if (grid.last() != grid.elements()) return unsupported("a product with something else than whole rows");
  // What lies as [N, K] in the file is taken as it is.
  std::shared_ptr<const Weight> matrix;
  if (!rows) {
    matrix = builder_.turned(weight);
  } else {
    Value seen = weight;
    if (weight.transposed) {
      seen.transposed = false;
      seen.dims = {weight.dims[1], weight.dims[0]};
      matrix = builder_.turned(seen);
    } else {
      matrix = weight.weight;
    }
  }
  ValueId made = -1;
  if (bias != nullptr) {
    TRY(const auto vector, builder_.vector(*bias));
    made = builder_.node(Op::linear, {in, builder_.constant(matrix), builder_.constant(vector)});
  } else {
    made = builder_.linear(in, matrix);
  }
  return this->made(made, out(node).dims, grid.axis, grid);
}

// A matrix for each head, or expert: [heads, K, N].
Result<Form> Rules::batched(const Node& node, const Form& x, const Value& weight) {
  const Weight& w = *weight.weight;
  if (weight.dims.size() != 3 || w.slabs.size() > 1)
    return unsupported("a matrix of {} dimensions", weight.dims.size());
  const std::int64_t heads = weight.dims[0];
  const std::int64_t width = weight.dims[1];
  const std::int64_t made_width = weight.dims[2];
  const Grid grid = x.grid->seen_along(std::ssize(x.grid->dims) - 2);
  if (x.kind != Kind::grid || !grid.plain() || grid.axis != std::ssize(grid.dims) - 2 || grid.last() != width)
    return unsupported("a product of matrices for heads and something else than their rows");
  const std::int64_t axis = std::ssize(out(node).dims) - 2;
  if (grid.elements() == width) {  // all on the same rows
    TRY(const ValueId in, builder_.rows(grid, 1));
    Form form = made(builder_.linear(in, builder_.flat(weight)), out(node).dims, axis, grid);
    form.factor = x.factor;
    return form;
  }
  if (grid.elements() != heads * width) return unsupported("a product of other heads");
  // Heads that lie apart are read where they lie.
  const auto& columns = grid.parts[0].columns;
  ValueId in = columns[0].base;
  const std::int64_t offset = columns[0].col;
  std::int64_t stride = heads > 1 ? columns[static_cast<std::size_t>(width)].col - offset : builder_.columns(in);
  bool regular = offset >= 0 && stride >= offset + width && stride * heads == builder_.columns(in);
  for (std::int64_t i = 0; i < grid.elements() && regular; ++i) {
    const Column& c = columns[static_cast<std::size_t>(i)];
    regular = c.base == in && c.col == i / width * stride + offset + i % width;
  }
  if (!regular) {
    TRY(in, builder_.rows(grid, 1));
    stride = width;
  }
  const std::int64_t rows = weight.transposed ? made_width : width;
  const ValueId base = builder_.node(Op::head_linear, {in, builder_.constant(Builder::below_each_other(w))},
                                     Attrs{}
                                         .set(Attr::heads, heads)
                                         .set(Attr::in_stride, stride)
                                         .set(Attr::in_offset, regular ? offset : 0)
                                         .set(Attr::head_rows, rows)
                                         .set(Attr::row_offset, 0)
                                         .set(Attr::rows, rows)
                                         .set(Attr::transposed, weight.transposed ? 0 : 1));
  Form form = made(base, out(node).dims, axis, grid);
  form.factor = x.factor;
  return form;
}

Result<Form> Rules::product(const Node& node) {
  const Form& a = in(node, 0);
  const Form& b = in(node, 1);
  const bool constant = b.kind == Kind::side || b.kind == Kind::matrix;
  if (node.op == Op::Gemm) {
    const bool plain =
        node.attrs.i(Attr::trans_a) == 0 && node.attrs.f(Attr::alpha, 1) == 1 && node.attrs.f(Attr::beta, 1) == 1;
    if (!constant || !plain || (node.inputs.size() > 2 && !is_known(in(node, 2))))
      return unsupported("a form of it that no product of rows is");
    const Value* bias = node.inputs.size() > 2 ? in(node, 2).side.get() : nullptr;
    return linear(node, a, *b.side, bias, node.attrs.i(Attr::trans_b) != 0);
  }
  if (constant && (a.kind == Kind::grid || a.kind == Kind::function)) return linear(node, a, *b.side, nullptr, false);
  if (constant && a.kind == Kind::routed) {
    TRY(const ValueId sum, routed_rows(a));
    const auto axis = std::ssize(a.dims) - 2;
    return linear(node, made(sum, a.dims, axis, Grid{.dims = {1}, .parts = {}}), *b.side, nullptr, false);
  }
  if (a.kind == Kind::probs) return attended(node, a, b);
  if (is_rows(a) && is_rows(b)) return scores(node, a, b);
  return unsupported("a product of something else than activations, weights and a cache");
}

Result<Form> Rules::cached(const Form& x) {
  if (x.grid->along == Along::cache) return x;
  if (x.grid->along != Along::step || !inputs_.caches.empty())
    return unsupported("keys or values that are of no cache");
  Grid grid = *x.grid;
  Form made = x;
  TRY(grid, builder_.settled(*x.grid, made.factor));
  // The columns in use, each once and in order of its first use.
  std::vector<std::int32_t> order;
  std::map<std::pair<ValueId, std::int32_t>, std::int32_t> place;
  Grid distinct{.dims = {grid.length(), 0}, .axis = 0, .parts = {{}}};
  for (const Column& column : grid.parts[0].columns)
    if (place.try_emplace({column.base, column.col}, static_cast<std::int32_t>(distinct.parts[0].columns.size()))
            .second)
      distinct.parts[0].columns.push_back(column);
  // Of one activation: in its own order, so that keys lie as the product makes them.
  auto& columns = distinct.parts[0].columns;
  if (std::all_of(columns.begin(), columns.end(), [&](const Column& c) { return c.base == columns[0].base; }))
    std::sort(columns.begin(), columns.end(), [](const Column& a, const Column& b) { return a.col < b.col; });
  for (std::size_t i = 0; i < columns.size(); ++i)
    place[{columns[i].base, columns[i].col}] = static_cast<std::int32_t>(i);
  distinct.dims[1] = std::ssize(columns);
  TRY(const ValueId rows, builder_.rows(distinct, 1));
  const ValueId write = builder_.cache(rows, "");
  for (Column& column : grid.parts[0].columns) column = {.base = write, .col = place[{column.base, column.col}]};
  grid.along = Along::cache;
  made.grid = std::make_shared<const Grid>(std::move(grid));
  return made;
}

namespace {

// Elements [heads, width] of a cache, where head h reads those of its group's: how many groups. Nothing: it is not so.
std::optional<std::int64_t> groups_of(const Grid& grid, std::int64_t heads, std::int64_t width, std::int64_t columns) {
  if (width < 1 || columns % width != 0) return std::nullopt;
  const std::int64_t groups = columns / width;
  if (groups < 1 || heads % groups != 0) return std::nullopt;
  const auto& all = grid.parts[0].columns;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t d = 0; d < width; ++d) {
      const Column& c = all[static_cast<std::size_t>(h * width + d)];
      if (c.base != all[0].base || c.col != h / (heads / groups) * width + d) return std::nullopt;
    }
  return groups;
}

// Keys and values of fewer heads than queries, in a product that broadcasts: the elements for each head.
std::optional<Grid> for_heads(const Grid& grid, const std::vector<std::int64_t>& batch, bool keys) {
  // grid: [.., columns, length] (keys) or [.., length, columns]; batch: of the product.
  const auto rank = grid.dims.size();
  if (rank < 2 || grid.axis != static_cast<std::int64_t>(keys ? rank - 1 : rank - 2)) return std::nullopt;
  const std::int64_t width = grid.dims[keys ? rank - 2 : rank - 1];
  const std::vector<std::int64_t> own(grid.dims.begin(), grid.dims.end() - 2);
  const auto less = std::ssize(batch) - std::ssize(own);
  if (less < 0) return std::nullopt;
  std::int64_t heads = 1;
  for (const auto d : batch) heads *= d;
  Grid made{.dims = {heads, width, grid.length()}, .axis = 2, .along = grid.along, .parts = {{}}};
  for (std::int64_t h = 0; h < heads; ++h) {
    std::int64_t rest = h;
    std::int64_t from = 0;
    std::int64_t stride = 1;
    for (std::int64_t i = std::ssize(batch) - 1; i >= 0; --i) {
      const std::int64_t at = rest % batch[static_cast<std::size_t>(i)];
      rest /= batch[static_cast<std::size_t>(i)];
      if (i < less) continue;
      const std::int64_t size = own[static_cast<std::size_t>(i - less)];
      if (size != 1) from += at * stride;
      stride *= size;
    }
    const auto first = grid.parts[0].columns.begin() + from * width;
    made.parts[0].columns.insert(made.parts[0].columns.end(), first, first + width);
  }
  return made;
}

}  // namespace

Result<Form> Rules::scores(const Node& node, const Form& q, const Form& k) {
  const Grid queries = q.grid->seen_along(std::ssize(q.grid->dims) - 2);
  if (queries.along != Along::step || queries.axis != std::ssize(queries.dims) - 2)
    return unsupported("a product of activations that is no query with keys");
  TRY(const Form keys, cached(k));
  const auto& dims = out(node).dims;
  const std::vector<std::int64_t> batch(dims.begin(), dims.end() - 2);
  const auto spread_keys = for_heads(*keys.grid, batch, true);
  const std::int64_t width = queries.last();
  const std::int64_t heads = queries.elements() / width;
  std::int64_t of_batch = 1;
  for (const auto d : batch) of_batch *= d;
  const ValueId write = keys.grid->parts[0].columns[0].base;
  if (!spread_keys || heads != of_batch || spread_keys->dims[1] != width)
    return unsupported("queries and keys of different shapes");
  const auto groups = groups_of(*spread_keys, heads, width, builder_.columns(builder_.maker(write)->inputs[0]));
  if (!groups) return unsupported("heads of keys in an order that no grouped attention has");
  double factor = q.factor;
  TRY(const Grid settled, builder_.settled(queries, factor));
  TRY(const ValueId rows, builder_.rows(settled, 1));
  auto made = std::make_shared<Scores>();
  *made = {.q = rows, .keys = write, .heads = heads, .kv_heads = *groups, .head_dim = width, .dims = dims};
  Form form{.kind = Kind::scores, .scores = made};
  const double both = factor * keys.factor;
  form.f = through(activation_points(), [&](double x) { return x * both; });
  return form;
}

Result<Form> Rules::masked(const Form& scores, const Value& mask, bool truth) {
  if (scores.scores->masked) return unsupported("scores that are masked twice");
  TRY(const std::int64_t window, window_of(mask, truth, inputs_.tokens, inputs_.past, scores.scores->dims.back()));
  auto made = std::make_shared<Scores>(*scores.scores);
  made->masked = true;
  made->window = window;
  Form form = scores;
  form.kind = Kind::masked;
  form.scores = made;
  return form;
}

Result<Form> Rules::softmax(const Node& node) {
  const Form& x = in(node, 0);
  if (x.kind != Kind::scores && x.kind != Kind::masked) return unsupported("of something else than scores");
  if (node.attrs.i(Attr::axis) != std::ssize(x.scores->dims) - 1)
    return unsupported("along another axis than that of the keys");
  if (!x.scores->masked && inputs_.tokens > 1)
    return unsupported("attention without a mask: tokens see what comes after them");
  auto made = std::make_shared<Scores>(*x.scores);
  if (const auto factor = as_factor(x.f)) {
    made->scale = neat(*factor);
  } else if (const auto cap = as_softcap(x.f)) {
    made->scale = neat(cap->scale);
    made->softcap = neat(cap->cap);
  } else {
    return unsupported("a function of scores that attention has not");
  }
  return Form{.kind = Kind::probs, .scores = made};
}

Result<Form> Rules::attended(const Node& node, const Form& probs, const Form& v) {
  if (!is_rows(v)) return unsupported("probabilities times something else than values");
  TRY(const Form values, cached(v));
  const Scores& s = *probs.scores;
  const auto& dims = out(node).dims;
  const auto spread_values = for_heads(*values.grid, {s.dims.begin(), s.dims.end() - 2}, false);
  if (!spread_values) return unsupported("values of another shape");
  const std::int64_t width = spread_values->dims[1];
  const ValueId write = values.grid->parts[0].columns[0].base;
  const std::int64_t columns = builder_.columns(builder_.maker(write)->inputs[0]);
  // Of one group it may be a part of what the cache has: a latent's.
  const auto groups = groups_of(*spread_values, s.heads, width, s.kv_heads == 1 ? width : columns);
  if (!groups || *groups != s.kv_heads) return unsupported("heads of values in an order that no grouped attention has");
  const ValueId made = builder_.node(Op::attention, {s.q, s.keys, write},
                                     Attrs{}
                                         .set(Attr::heads, s.heads)
                                         .set(Attr::kv_heads, s.kv_heads)
                                         .set(Attr::head_dim, s.head_dim)
                                         .set(Attr::v_dim, width)
                                         .set(Attr::v_stride, width)
                                         .set(Attr::scale, s.scale)
                                         .set(Attr::window, s.window)
                                         .set(Attr::softcap, s.softcap));
  Form form = this->made(made, dims, std::ssize(dims) - 2, Grid{.dims = {1}, .parts = {}});
  form.factor = values.factor;
  return form;
}

Result<Form> Rules::where(const Node& node) {
  const Form& condition = in(node, 0);
  const Form& yes = in(node, 1);
  const Form& no = in(node, 2);
  // Rows that see nothing: softmax made them no numbers. Here every token sees itself.
  if (condition.kind == Kind::probs_nan && no.kind == Kind::probs && condition.scores == no.scores) return no;
  if (is_known(condition) && yes.kind == Kind::scores && is_known(no)) {
    const auto low = scalar_of(*no.side);
    if (low && *low < -1e3) return masked(yes, *condition.side, true);
  }
  if (is_known(condition) && no.kind == Kind::scores && is_known(yes)) {
    const auto low = scalar_of(*yes.side);
    auto hidden = numbers_of(*condition.side);
    for (double& each : hidden) each = each == 0 ? 1 : 0;
    if (low && *low < -1e3) return masked(no, *side_value("visible", DType::BOOL, condition.side->dims, hidden), true);
  }
  return unsupported("a choice between activations");
}

}  // namespace knapsack::recognition
