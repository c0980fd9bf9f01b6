// Columns that are rotated: sums of two times cos and sin become RoPE on what they are columns of.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "passes/recognize/builder.h"

namespace knapsack::recognition {
namespace {

constexpr double close = 1e-5;

}  // namespace

// Columns u and v of a base, turned by the angle position * frequency: y_u = u cos - v sin, y_v = u sin + v cos.
struct Builder::Pair {
  std::int32_t u = 0, v = 0;
  double frequency = 0;
};

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
    // The columns in use, one behind the other; of what others read too, all.
    std::vector<std::int32_t> list(used[base].begin(), used[base].end());
    if (read_.count(base) > 0) {
      list.resize(static_cast<std::size_t>(this->columns(base)));
      std::iota(list.begin(), list.end(), 0);
    }
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

}  // namespace knapsack::recognition
