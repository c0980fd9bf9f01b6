// Attention: scores, masks, probabilities, values.
#include <algorithm>

#include "passes/recognize/rules.h"

namespace knapsack::recognition {

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

// Of latents, where keys are made of them and no cache has whole ones. Nothing: it is not so.
Result<std::optional<Form>> Rules::latent_scores(const Grid& queries, double factor, const Form& k,
                                                 const std::vector<std::int64_t>& batch) {
  double both = factor;
  TRY(const Grid keys, builder_.settled(*k.grid, both));
  const auto each = for_heads(keys, batch, true);
  if (!each || queries.elements() != each->elements()) return std::optional<Form>{};
  auto latent = latent_keys(each->parts[0].columns, each->dims[0]);
  if (!latent) return std::optional<Form>{};
  TRY(const Grid settled, builder_.settled(queries, both));
  if (!latent_queries(settled.parts[0].columns, *latent)) return std::optional<Form>{};
  both *= k.factor;
  auto made = std::make_shared<Scores>();
  made->heads = latent->heads;
  made->dims = batch;
  made->dims.push_back(queries.length());
  made->dims.push_back(keys.length());
  made->latent = std::move(latent);
  Form form{.kind = Kind::scores, .scores = made};
  form.f = through(activation_points(), [&](double x) { return x * both; });
  return std::optional<Form>{std::move(form)};
}

Result<Form> Rules::scores(const Node& node, const Form& q, const Form& k) {
  const Grid queries = q.grid->seen_along(std::ssize(q.grid->dims) - 2);
  if (queries.along != Along::step || queries.axis != std::ssize(queries.dims) - 2)
    return unsupported("a product of activations that is no query with keys");
  const auto& dims = out(node).dims;
  const std::vector<std::int64_t> batch(dims.begin(), dims.end() - 2);
  if (k.grid->along == Along::step && inputs_.caches.empty()) {
    TRY(const auto latent, latent_scores(queries, q.factor, k, batch));
    if (latent) return *latent;
  }
  TRY(const Form keys, cached(k));
  const auto spread_keys = for_heads(*keys.grid, batch, true);
  const std::int64_t width = queries.last();
  const std::int64_t heads = queries.elements() / width;
  std::int64_t of_batch = 1;
  for (const auto d : batch) of_batch *= d;
  const ValueId write = keys.grid->parts[0].columns[0].base;
  if (!spread_keys || heads != of_batch || spread_keys->dims[1] != width)
    return unsupported("queries and keys of different shapes");
  const auto groups = groups_of(*spread_keys, heads, width, builder_.columns(write));
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
  const Scores& s = *probs.scores;
  const auto& dims = out(node).dims;
  if (s.latent) {
    double factor = v.factor;
    if (v.grid->along != Along::step) return unsupported("values of something else than the keys' latents");
    TRY(const Grid whole, builder_.settled(*v.grid, factor));
    const auto each = for_heads(whole, {s.dims.begin(), s.dims.end() - 2}, false);
    Latent latent = *s.latent;
    if (!each || !latent_values(each->parts[0].columns, latent))
      return unsupported("values of something else than the keys' latents");
    {
      auto columns = columns_of(latent.latent, builder_.columns(latent.latent));
      const auto rotated = columns_of(latent.k_rope, builder_.columns(latent.k_rope));
      columns.insert(columns.end(), rotated.begin(), rotated.end());
      const Grid both{
          .dims = {inputs_.tokens, std::ssize(columns)}, .axis = 0, .parts = {{.columns = std::move(columns)}}};
      TRY(const ValueId kept, builder_.rows(both, 1));
      const ValueId context = latent_context(latent, builder_.cache(kept, ""), s);
      Form form = this->made(context, dims, std::ssize(dims) - 2, Grid{.dims = {1}, .parts = {}});
      form.factor = factor;
      return form;
    }
  }
  TRY(const Form values, cached(v));
  const auto spread_values = for_heads(*values.grid, {s.dims.begin(), s.dims.end() - 2}, false);
  if (!spread_values) return unsupported("values of another shape");
  const std::int64_t width = spread_values->dims[1];
  const ValueId write = values.grid->parts[0].columns[0].base;
  const std::int64_t columns = builder_.columns(write);
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
