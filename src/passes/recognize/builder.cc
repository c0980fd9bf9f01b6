#include "passes/recognize/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

namespace knapsack::recognition {
namespace {

constexpr double close = 1e-5;

std::vector<std::byte> turned_bytes(const Weight& w, std::int64_t rows, std::int64_t cols) {
  const auto size = static_cast<std::size_t>(format(w.dtype).block_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * cols) * size);
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < cols; j0 += tile)
      for (std::int64_t i = i0; i < std::min(i0 + tile, rows); ++i)
        for (std::int64_t j = j0; j < std::min(j0 + tile, cols); ++j)
          std::memcpy(bytes.data() + static_cast<std::size_t>(j * rows + i) * size,
                      w.slabs[0] + static_cast<std::size_t>(i * cols + j) * size, size);
  return bytes;
}

// Turned twice it has the name it had.
std::string turned_name(const std::string& name) {
  const bool twice = name.size() > 2 && name.compare(name.size() - 2, 2, ".T") == 0;
  return twice ? name.substr(0, name.size() - 2) : name + ".T";
}

std::shared_ptr<const Weight> shape_alone(std::string name, DType dtype, std::vector<std::int64_t> shape) {
  Weight w{.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  return std::make_shared<const Weight>(std::move(w));
}

// Those rows of a matrix (elements of a vector), without a copy where they follow each other.
std::shared_ptr<const Weight> picked(const Weight& w, const std::vector<std::int32_t>& rows, bool data) {
  const auto count = std::ssize(rows);
  bool next = true;
  for (std::size_t i = 1; i < rows.size(); ++i) next = next && rows[i] == rows[i - 1] + 1;
  const std::string name = fmt::format("{}[{}{}]", w.name, rows[0], next ? fmt::format(":{}", rows[0] + count) : ",..");
  if (next) {
    Weight part = w.rows(rows[0], count);
    part.name = name;
    return std::make_shared<const Weight>(std::move(part));
  }
  auto shape = w.shape;
  shape[0] = count;
  if (!data || w.slabs.empty()) return shape_alone(name, w.dtype, std::move(shape));
  const auto size = static_cast<std::size_t>(w.shape.size() == 2 ? w.row_size() : format(w.dtype).block_bytes);
  std::vector<std::byte> bytes(rows.size() * size);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(bytes.data() + i * size, w.slabs[0] + static_cast<std::size_t>(rows[i]) * size, size);
  return owned_weight(name, w.dtype, std::move(shape), std::move(bytes));
}

bool is_identity(const std::vector<std::int32_t>& columns, std::int64_t width) {
  if (std::ssize(columns) != width) return false;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i] != static_cast<std::int32_t>(i)) return false;
  return true;
}

}  // namespace

// Columns u and v of a base, turned by the angle position * frequency: y_u = u cos - v sin, y_v = u sin + v cos.
struct Builder::Pair {
  std::int32_t u = 0, v = 0;
  double frequency = 0;
};

std::string Builder::unique() { return fmt::format("{}#{}", name_, count_++); }

const Node* Builder::maker(ValueId id) const {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at >= maker_.size() || maker_[at] < 0) return nullptr;
  return &graph_.list()[static_cast<std::size_t>(maker_[at])];
}

std::vector<ValueId> Builder::nodes(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  auto made = graph_.nodes(op, unique(), std::move(inputs), std::move(attrs));
  maker_.resize(graph_.values().size(), -1);
  for (const ValueId id : made) maker_[static_cast<std::size_t>(id)] = static_cast<int>(graph_.list().size()) - 1;
  return made;
}

ValueId Builder::node(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return nodes(op, std::move(inputs), std::move(attrs))[0];
}

ValueId Builder::constant(const std::shared_ptr<const Weight>& weight) {
  const auto [it, fresh] = constants_.try_emplace(weight.get(), -1);
  if (fresh)
    it->second = graph_.constant(
        weight, {.name = graph_.find(weight->name) < 0 ? "" : fmt::format("{}#{}", weight->name, count_++)});
  return it->second;
}

std::shared_ptr<const Weight> Builder::turned(const Value& v) {
  const Weight& w = *v.weight;
  if (v.transposed) return v.weight;  // stored [N, K], seen as [K, N]
  auto& made = turned_[&w];
  if (made != nullptr) return made;
  const std::int64_t rows = v.dims[0];
  const std::int64_t cols = v.dims[1];
  const std::string name = turned_name(w.name);
  if (!data_ || w.slabs.size() != 1) {
    made = shape_alone(name, w.dtype, {cols, rows});
    return made;
  }
  auto bytes = turned_bytes(w, rows, cols);
  // A head that is tied to the embedding is written as a matrix of its own.
  for (const Node& node : graph_.list()) {
    if (node.op != Op::embed) continue;
    const Weight& table = *graph_.value(node.inputs[1]).weight;
    if (table.dtype != w.dtype || table.shape != std::vector{cols, rows} || table.slabs.size() != 1) continue;
    if (std::memcmp(table.slabs[0], bytes.data(), bytes.size()) == 0) {
      made = graph_.value(node.inputs[1]).weight;
      return made;
    }
  }
  made = owned_weight(name, w.dtype, {cols, rows}, std::move(bytes));
  return made;
}

std::shared_ptr<const Weight> Builder::below_each_other(const Weight& w) {
  Weight made = w;
  made.shape = {w.shape[0] * w.shape[1], w.shape[2]};
  return std::make_shared<const Weight>(std::move(made));
}

std::shared_ptr<const Weight> Builder::flat(const Value& v) {
  const Weight& w = *v.weight;
  if (v.transposed) return below_each_other(w);  // stored [heads, N, K]
  auto& made = turned_[&w];
  if (made != nullptr) return made;
  const std::int64_t heads = v.dims[0];
  const std::int64_t rows = v.dims[1];
  const std::int64_t cols = v.dims[2];
  const std::string name = turned_name(w.name);
  if (!data_ || w.slabs.size() != 1) {
    made = shape_alone(name, w.dtype, {heads * cols, rows});
    return made;
  }
  std::vector<std::byte> all;
  all.reserve(static_cast<std::size_t>(w.bytes()));
  for (std::int64_t h = 0; h < heads; ++h) {
    Weight one{.name = w.name, .dtype = w.dtype, .shape = {rows, cols}, .slabs = {w.slab(h)}};
    const auto bytes = turned_bytes(one, rows, cols);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  made = owned_weight(name, w.dtype, {heads * cols, rows}, std::move(all));
  return made;
}

Result<std::shared_ptr<const Weight>> Builder::vector(const Value& v) const {
  const std::int64_t size = v.elements();
  if (v.dtype == DType::F32 && v.weight->shape == std::vector{size}) return v.weight;
  if (v.weight->slabs.empty()) return shape_alone(v.name, DType::F32, {size});
  const auto numbers = numbers_of(v);
  if (numbers.empty()) return unsupported("constant '{}' cannot be read as a vector", v.name);
  return f32_weight(v.name, {size}, std::vector<float>(numbers.begin(), numbers.end()));
}

ValueId Builder::linear(ValueId x, const std::shared_ptr<const Weight>& weight) {
  return node(Op::linear, {x, constant(weight)});
}

ValueId Builder::select(ValueId base, const std::vector<std::int32_t>& columns) {
  if (is_identity(columns, this->columns(base))) return base;
  ValueId& made = selected_.try_emplace({base, columns}, -1).first->second;
  if (made >= 0) return made;
  const Node* from = maker(base);
  if (from != nullptr && from->op == Op::linear) {
    std::vector<ValueId> inputs{from->inputs[0]};
    for (std::size_t i = 1; i < from->inputs.size(); ++i) {
      const auto weight = graph_.value(from->inputs[i]).weight;
      inputs.push_back(constant(picked(*weight, columns, data_)));
    }
    made = node(Op::linear, std::move(inputs));
    return made;
  }
  std::vector<double> numbers(columns.begin(), columns.end());
  const auto index = side_value(fmt::format("columns#{}", count_++), DType::I32, {std::ssize(columns)}, numbers);
  made = node(Op::gather_cols, {base, constant(index->weight)});
  return made;
}

ValueId Builder::inv_freq(const std::vector<float>& values) {
  for (const auto& [known, id] : tables_)
    if (known == values) return id;
  const std::string name = tables_.empty() ? "rope.inv_freq" : fmt::format("rope.{}.inv_freq", tables_.size() + 1);
  const ValueId id = constant(f32_weight(name, {std::ssize(values)}, values));
  tables_.emplace_back(values, id);
  return id;
}

// pairs: of the base's columns, in ascending order of u.
Result<ValueId> Builder::rotate(ValueId base, std::vector<Pair> pairs, double scale) {
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.u < b.u; });
  const auto count = std::ssize(pairs);
  const std::int64_t width = columns(base);
  const bool interleaved = std::all_of(pairs.begin(), pairs.end(), [](const Pair& p) { return p.v == p.u + 1; });
  const auto distance = pairs[0].v - pairs[0].u;
  std::int64_t half = distance;  // pairs of a head
  if (interleaved) {
    half = 1;
    while (half < count && pairs[static_cast<std::size_t>(half)].u == pairs[static_cast<std::size_t>(half - 1)].u + 2 &&
           std::abs(pairs[static_cast<std::size_t>(half)].frequency - pairs[0].frequency) >
               close * std::abs(pairs[0].frequency))
      ++half;
  }
  const auto wrong = [&] { return unsupported("a rotation whose pairs of columns lie in no order that RoPE has"); };
  if (half < 1 || count % half != 0) return wrong();
  const std::int64_t heads = count / half;
  const std::int64_t begin = pairs[0].u;
  const std::int64_t stride = heads > 1 ? pairs[static_cast<std::size_t>(half)].u - begin : width;
  if (stride * heads != width || begin + 2 * half > stride) return wrong();
  std::vector<float> table(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < count; ++i) {
    const Pair& p = pairs[static_cast<std::size_t>(i)];
    const std::int64_t place = i % half;
    const std::int64_t u = i / half * stride + begin + (interleaved ? 2 * place : place);
    if (p.u != u || p.v != u + (interleaved ? 1 : half)) return wrong();
    auto& entry = table[static_cast<std::size_t>(place)];
    if (i < half) entry = static_cast<float>(p.frequency);
    if (std::abs(entry - p.frequency) > close * std::abs(p.frequency)) return wrong();
  }
  if (std::abs(scale - 1) < close) scale = 1;
  const ValueId frequencies = inv_freq(table);
  const std::string key =
      fmt::format("{} {} {} {} {} {} {}", base, frequencies, heads, stride, begin, interleaved, scale);
  ValueId& made = rotated_.try_emplace(key, -1).first->second;
  if (made < 0)
    made = node(Op::rope, {base, frequencies},
                Attrs{}
                    .set(Attr::heads, heads)
                    .set(Attr::stride, stride)
                    .set(Attr::begin, begin)
                    .set(Attr::rotary, 2 * half)
                    .set(Attr::interleaved, interleaved ? 1 : 0)
                    .set(Attr::scale, scale));
  return made;
}

Result<Grid> Builder::settled(const Grid& grid, double& factor) {
  if (grid.plain()) return grid;
  const auto tokens = static_cast<std::size_t>(grid.length());
  const auto count = static_cast<std::size_t>(grid.elements());
  struct Term {
    Column column;
    std::vector<double> c;
  };
  struct Rotated {
    std::vector<double> on_u, on_v;
    std::vector<std::size_t> elements;
  };
  using Key = std::pair<std::int32_t, std::int32_t>;
  std::map<ValueId, std::map<Key, std::vector<Rotated>>> rotations;
  std::map<ValueId, std::set<std::int32_t>> used;
  std::vector<Column> columns(count);
  std::optional<double> constant;
  for (std::size_t e = 0; e < count; ++e) {
    std::vector<Term> terms;
    for (const Part& part : grid.parts) {
      const Column column = part.columns[e];
      if (column.base < 0) continue;
      std::vector<double> c(tokens, 1.0);
      if (!part.coefficients.empty())
        std::copy_n(part.coefficients.begin() + static_cast<std::ptrdiff_t>(e * tokens), tokens, c.begin());
      if (std::all_of(c.begin(), c.end(), [](double each) { return each == 0; })) continue;
      const auto known = std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.column == column; });
      if (known == terms.end()) {
        terms.push_back({column, std::move(c)});
      } else {
        std::transform(c.begin(), c.end(), known->c.begin(), known->c.begin(), std::plus<>());
      }
    }
    if (terms.size() == 1) {
      const auto& c = terms[0].c;
      if (!std::all_of(c.begin(), c.end(),
                       [&](double each) { return std::abs(each - c[0]) <= close * std::abs(c[0]); }))
        return unsupported("a column that is scaled by its position");
      if (constant && std::abs(*constant - c[0]) > close * std::abs(c[0]))
        return unsupported("columns that are scaled differently");
      constant = c[0];
      columns[e] = terms[0].column;
      used[columns[e].base].insert(columns[e].col);
    } else if (terms.size() == 2 && terms[0].column.base == terms[1].column.base) {
      if (terms[0].column.col > terms[1].column.col) std::swap(terms[0], terms[1]);
      const ValueId base = terms[0].column.base;
      auto& classes = rotations[base][{terms[0].column.col, terms[1].column.col}];
      const auto known = std::find_if(classes.begin(), classes.end(),
                                      [&](const Rotated& r) { return r.on_u == terms[0].c && r.on_v == terms[1].c; });
      if (known == classes.end()) {
        classes.push_back({terms[0].c, terms[1].c, {e}});
      } else {
        known->elements.push_back(e);
      }
      used[base].insert({terms[0].column.col, terms[1].column.col});
    } else {
      return unsupported("a sum of {} columns, which is no rotation of two", terms.size());
    }
  }
  if (!rotations.empty() && constant && std::abs(*constant - 1) > close)
    return unsupported("columns that are scaled beside some that are rotated");
  if (rotations.empty() && constant) factor *= *constant;

  for (const auto& [base, keys] : rotations) {
    // The columns in use, one behind the other.
    const std::vector<std::int32_t> list(used[base].begin(), used[base].end());
    const ValueId sub = select(base, list);
    const auto place = [&](std::int32_t column) {
      return static_cast<std::int32_t>(std::lower_bound(list.begin(), list.end(), column) - list.begin());
    };
    std::vector<Pair> pairs;
    std::vector<std::pair<const Rotated*, const Rotated*>> made_of;  // of u, of v
    double scales = 0;
    for (const auto& [key, classes] : keys) {
      if (classes.size() != 2) return unsupported("a rotation of which one half is not there");
      // d = c turned by a quarter: then c is that of u.
      const auto quarter = [&](const Rotated& c, const Rotated& d) {
        for (std::size_t t = 0; t < tokens; ++t)
          if (std::abs(d.on_u[t] + c.on_v[t]) > close || std::abs(d.on_v[t] - c.on_u[t]) > close) return false;
        return true;
      };
      const Rotated* of_u = classes.data();
      const Rotated* of_v = &classes[1];
      if (!quarter(*of_u, *of_v)) std::swap(of_u, of_v);
      if (!quarter(*of_u, *of_v)) return unsupported("a sum of two columns that is no rotation");
      std::vector<double> cos(tokens);
      std::vector<double> sin(tokens);
      double scale = 0;
      for (std::size_t t = 0; t < tokens; ++t) {
        const double size = std::hypot(of_u->on_u[t], of_u->on_v[t]);
        cos[t] = of_u->on_u[t] / size;
        sin[t] = -of_u->on_v[t] / size;
        scale += size / static_cast<double>(tokens);
      }
      scales += scale;
      Pair pair{.u = place(key.first), .v = place(key.second), .frequency = angles_.frequency(cos, sin)};
      if (pair.frequency < 0) {
        std::swap(pair.u, pair.v);
        std::swap(of_u, of_v);
        pair.frequency = -pair.frequency;
      }
      pairs.push_back(pair);
      made_of.emplace_back(of_u, of_v);
    }
    TRY(const ValueId turned, rotate(sub, pairs, scales / static_cast<double>(pairs.size())));
    std::set<std::int32_t> turned_columns;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      for (const std::size_t e : made_of[i].first->elements) columns[e] = {.base = turned, .col = pairs[i].u};
      for (const std::size_t e : made_of[i].second->elements) columns[e] = {.base = turned, .col = pairs[i].v};
      turned_columns.insert({pairs[i].u, pairs[i].v});
    }
    for (Column& column : columns) {
      if (column.base != base) continue;
      const std::int32_t at = place(column.col);
      // RoPE lets the other columns through.
      column = {.base = turned_columns.count(at) > 0 ? sub : turned, .col = at};
    }
  }
  Grid made = grid;
  made.parts = {{.columns = std::move(columns)}};
  return made;
}

Result<ValueId> Builder::rows(const Grid& grid, double factor) {
  if (grid.along == Along::past || grid.along == Along::cache)
    return unsupported("the cache is read by something else than attention");
  TRY(const Grid settled, this->settled(grid, factor));
  const auto& wanted = settled.parts[0].columns;
  std::map<ValueId, std::set<std::int32_t>> used;
  for (const Column& column : wanted) {
    if (column.base < 0) return unsupported("columns of zeros");
    used[column.base].insert(column.col);
  }
  if (used.size() == 2) {
    TRY(const ValueId by_heads, this->by_heads(wanted));
    if (by_heads >= 0) return scaled(by_heads, factor);
  }
  ValueId all = -1;
  std::map<ValueId, std::pair<std::int64_t, std::vector<std::int32_t>>> places;  // first column, of those in use
  if (used.size() == 1) {
    all = used.begin()->first;
  } else {
    std::int64_t width = 0;
    for (const auto& [base, columns] : used) {
      std::vector<std::int32_t> list(columns.begin(), columns.end());
      const ValueId part = select(base, list);
      const auto size = std::ssize(list);
      all = all < 0 ? part
                    : node(Op::head_concat, {all, part},
                           Attrs{}
                               .set(Attr::heads, 1)
                               .set(Attr::a_cols, width)
                               .set(Attr::b_stride, size)
                               .set(Attr::b_offset, 0)
                               .set(Attr::b_cols, size));
      places[base] = {width, std::move(list)};
      width += size;
    }
  }
  std::vector<std::int32_t> columns(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    columns[i] = wanted[i].col;
    if (places.empty()) continue;
    const auto& [first, list] = places[wanted[i].base];
    columns[i] =
        static_cast<std::int32_t>(first + (std::lower_bound(list.begin(), list.end(), wanted[i].col) - list.begin()));
  }
  return scaled(select(all, columns), factor);
}

ValueId Builder::scaled(ValueId x, double factor) {
  if (std::abs(factor - 1) < 1e-12) return x;
  const std::string key = fmt::format("{} * {:a}", x, factor);
  ValueId& made = rotated_.try_emplace(key, -1).first->second;
  if (made >= 0) return made;
  const Node* from = maker(x);
  if (from != nullptr && from->op == Op::embed) {
    made = node(Op::embed, from->inputs, Attrs{}.set(Attr::scale, from->attrs.f(Attr::scale, 1) * factor));
  } else {
    made = node(Op::scale, {x}, Attrs{}.set(Attr::scale, factor));
  }
  return made;
}

// Heads of which each has columns of one activation, then of another; -1: it is not so.
Result<ValueId> Builder::by_heads(const std::vector<Column>& wanted) {
  const auto count = std::ssize(wanted);
  const ValueId a = wanted[0].base;
  std::int64_t a_cols = 0;
  while (a_cols < count && wanted[static_cast<std::size_t>(a_cols)].base == a) ++a_cols;
  std::int64_t period = a_cols;
  while (period < count && wanted[static_cast<std::size_t>(period)].base != a) ++period;
  const std::int64_t heads = count / period;
  if (period == a_cols || heads * period != count) return ValueId{-1};
  const ValueId b = wanted[static_cast<std::size_t>(a_cols)].base;
  std::vector<std::int32_t> of_a;
  std::vector<std::int32_t> of_b;
  for (std::int64_t i = 0; i < count; ++i) {
    const Column& c = wanted[static_cast<std::size_t>(i)];
    const bool first = i % period < a_cols;
    if (c.base != (first ? a : b)) return ValueId{-1};
    (first ? of_a : of_b).push_back(c.col);
  }
  // b's are read where they lie if each head has its own, in order.
  const std::int64_t b_cols = period - a_cols;
  const std::int64_t stride = columns(b) / heads;
  const std::int64_t offset = of_b[0];
  bool regular = stride * heads == columns(b) && offset + b_cols <= stride;
  for (std::int64_t i = 0; i < std::ssize(of_b) && regular; ++i)
    regular = of_b[static_cast<std::size_t>(i)] == i / b_cols * stride + offset + i % b_cols;
  return node(Op::head_concat, {select(a, of_a), regular ? b : select(b, of_b)},
              Attrs{}
                  .set(Attr::heads, heads)
                  .set(Attr::a_cols, a_cols)
                  .set(Attr::b_stride, regular ? stride : b_cols)
                  .set(Attr::b_offset, regular ? offset : 0)
                  .set(Attr::b_cols, b_cols));
}

ValueId Builder::cache(ValueId x, const std::string& past) {
  for (const CacheInfo& info : caches_)
    if (info.x == x) return info.write;
  const ValueId state = graph_.state(fmt::format("kv#{}", count_++), columns(x));
  const ValueId write = node(Op::kv_write, {x, state}, Attrs{}.set(Attr::col, 0));
  caches_.push_back({.write = write, .x = x, .past = past});
  return write;
}

}  // namespace knapsack::recognition
