// Products with weights, and attention: scores, masks, probabilities, values.
#include <algorithm>
#include <cmath>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {

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
