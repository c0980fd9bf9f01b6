#include "passes/recognize/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace knapsack::recognition {
namespace {

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
  if (!data || w.slabs.empty()) return Builder::shape_alone(name, w.dtype, std::move(shape));
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

std::string Builder::unique() { return fmt::format("{}#{}", name_, count_++); }

const Node* Builder::maker(ValueId id) const {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at >= maker_.size() || maker_[at] < 0) return nullptr;
  return &graph_.list()[static_cast<std::size_t>(maker_[at])];
}

std::vector<ValueId> Builder::nodes(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  read_.insert(inputs.begin(), inputs.end());
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

ValueId Builder::stand_in(const std::shared_ptr<const Value>& all, const Choice& choice) {
  const Weight& w = *all->weight;
  const auto chosen = Builder::shape_alone(fmt::format("{}[chosen]#{}", w.name, count_++), w.dtype,
                                           {choice.top_k * all->dims[2], all->dims[1]});
  const ValueId id = constant(chosen);
  stand_ins_.emplace(id, StandIn{.all = all, .choice = choice});
  return id;
}

const Builder::StandIn* Builder::stand_in(ValueId constant) const {
  const auto at = stand_ins_.find(constant);
  return at == stand_ins_.end() ? nullptr : &at->second;
}

ValueId Builder::linear(ValueId x, const std::shared_ptr<const Weight>& weight) {
  return node(Op::linear, {x, constant(weight)});
}

ValueId Builder::select(ValueId base, const std::vector<std::int32_t>& columns) {
  if (is_identity(columns, this->columns(base))) return base;
  ValueId& made = selected_.try_emplace({base, columns}, -1).first->second;
  if (made >= 0) return made;
  const Node* from = maker(base);
  if (from != nullptr && from->op == Op::linear && stand_in(from->inputs[1]) == nullptr) {
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
  // Columns of one activation, then of others: each is written for itself.
  CacheInfo info{.x = x, .past = past};
  for (ValueId open = x; open >= 0;) {
    const Node* joined = maker(open);
    const bool apart = joined != nullptr && joined->op == Op::head_concat && joined->attrs.i(Attr::heads) == 1 &&
                       joined->attrs.i(Attr::b_offset) == 0 &&
                       joined->attrs.i(Attr::b_cols) == columns(joined->inputs[1]);
    info.parts.insert(info.parts.begin(), apart ? joined->inputs[1] : open);
    open = apart ? joined->inputs[0] : -1;
  }
  ValueId write = graph_.state(fmt::format("kv#{}", count_++), columns(x));
  std::int64_t col = 0;
  for (const ValueId part : info.parts) {
    write = node(Op::kv_write, {part, write}, Attrs{}.set(Attr::col, col));
    col += columns(part);
  }
  info.write = write;
  caches_.push_back(std::move(info));
  return write;
}

}  // namespace knapsack::recognition
