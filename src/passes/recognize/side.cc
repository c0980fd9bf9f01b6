#include "passes/recognize/side.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tensor/weight.h"

namespace knapsack::recognition {
namespace {

constexpr double invisible = -1e3;  // what is added to a score that is not to be seen is far below this

template <class T>
void read_as(const Weight& weight, std::vector<double>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T number{};
    std::memcpy(&number, weight.slabs[0] + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(number);
  }
}

template <class T>
void write_as(std::span<const double> numbers, std::vector<std::byte>& out) {
  out.resize(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<T>(numbers[i]);
    std::memcpy(out.data() + i * sizeof(T), &number, sizeof(T));
  }
}

}  // namespace

std::vector<double> numbers_of(const Value& side) {
  const Weight& w = *side.weight;
  if (w.slabs.size() != 1 || side.transposed || w.bytes() > side_bytes) return {};
  std::vector<double> out(static_cast<std::size_t>(w.elements()));
  switch (side.dtype) {
    case DType::F32:
      read_as<float>(w, out);
      break;
    case DType::F64:
      read_as<double>(w, out);
      break;
    case DType::I32:
      read_as<std::int32_t>(w, out);
      break;
    case DType::I64:
      read_as<std::int64_t>(w, out);
      break;
    case DType::BOOL:
      read_as<std::uint8_t>(w, out);
      break;
    case DType::F16:
    case DType::BF16: {
      std::vector<float> floats(out.size());
      format(side.dtype).decode(w.slabs[0], floats.data(), w.elements());
      std::copy(floats.begin(), floats.end(), out.begin());
      break;
    }
    default:
      return {};
  }
  return out;
}

std::optional<double> scalar_of(const Value& side) {
  if (side.weight->elements() > 4096) return std::nullopt;
  const auto all = numbers_of(side);
  if (all.empty() || !std::equal(all.begin() + 1, all.end(), all.begin())) return std::nullopt;
  return all[0];
}

std::vector<float> spread(const Value& side, const Grid& grid) {
  const auto all = numbers_of(side);
  const auto rank = std::ssize(grid.dims);
  const auto less = rank - std::ssize(side.dims);
  if (all.empty() || less < 0) return {};
  std::vector<std::int64_t> strides(grid.dims.size(), 0);
  std::int64_t stride = 1;
  for (std::int64_t i = rank - 1; i >= less; --i) {
    const std::int64_t size = side.dims[static_cast<std::size_t>(i - less)];
    const auto at = static_cast<std::size_t>(i);
    if (size != 1 && size != grid.dims[at]) return {};
    strides[at] = size == 1 ? 0 : stride;
    stride *= size;
  }
  const std::int64_t tokens = grid.length();
  const auto axis = static_cast<std::size_t>(grid.axis);
  std::vector<float> out(static_cast<std::size_t>(grid.elements() * tokens));
  const auto reduced = grid.reduced();
  std::vector<std::int64_t> at(reduced.size(), 0);
  for (std::int64_t e = 0; e < grid.elements(); ++e) {
    const std::int64_t from = std::inner_product(at.begin(), at.end(), strides.begin(), std::int64_t{0});
    for (std::int64_t t = 0; t < tokens; ++t)
      out[static_cast<std::size_t>(e * tokens + t)] =
          static_cast<float>(all[static_cast<std::size_t>(from + t * strides[axis])]);
    for (std::size_t i = at.size(); i-- > 0;) {
      if (++at[i] < reduced[i]) break;
      at[i] = 0;
    }
  }
  return out;
}

std::shared_ptr<const Value> side_value(const std::string& name, DType dtype, std::vector<std::int64_t> dims,
                                        std::span<const double> numbers) {
  std::vector<std::byte> bytes;
  switch (dtype) {
    case DType::I64:
      write_as<std::int64_t>(numbers, bytes);
      break;
    case DType::I32:
      write_as<std::int32_t>(numbers, bytes);
      break;
    case DType::BOOL:
      write_as<std::uint8_t>(numbers, bytes);
      break;
    case DType::F64:
      write_as<double>(numbers, bytes);
      break;
    default: {
      std::vector<float> floats(numbers.begin(), numbers.end());
      bytes.resize(static_cast<std::size_t>(row_bytes(dtype, std::ssize(floats))));
      format(dtype).encode(floats.data(), bytes.data(), std::ssize(floats) / format(dtype).block);
    }
  }
  Value value{.name = name, .kind = ValueKind::constant, .dtype = dtype, .dims = dims};
  value.weight = owned_weight(name, dtype, std::move(dims), std::move(bytes));
  return std::make_shared<const Value>(std::move(value));
}

Result<std::int64_t> window_of(const Value& mask, bool truth, std::int64_t tokens, std::int64_t past,
                               std::int64_t length) {
  const Grid places{.dims = {tokens, length}, .axis = 0, .parts = {{.columns = columns_of(0, length)}}};
  Value flat = mask;
  while (flat.dims.size() > 2 && flat.dims.front() == 1) flat.dims.erase(flat.dims.begin());
  if (flat.dims.size() > 2) {  // one for each head, all the same perhaps
    const auto numbers = numbers_of(flat);
    const auto each = static_cast<std::size_t>(flat.dims.back() * flat.dims[flat.dims.size() - 2]);
    bool same = !numbers.empty();
    for (std::size_t i = each; i < numbers.size() && same; ++i) same = numbers[i] == numbers[i - each];
    if (!same) return unsupported("a mask that is not the same for all heads");
    flat = *side_value("mask", flat.dtype, {flat.dims.end() - 2, flat.dims.end()}, std::span(numbers).first(each));
  }
  const auto all = spread(flat, places);  // [length, tokens]
  if (all.empty()) return unsupported("a mask of {} for {} tokens of {}", flat.dims.size(), tokens, length);
  std::int64_t window = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::int64_t first = -1;
    for (std::int64_t at = 0; at < length; ++at) {
      const float said = all[static_cast<std::size_t>(at * tokens + t)];
      if (!truth && said != 0 && said > invisible) return unsupported("a mask that adds {} to scores", said);
      const bool visible = truth ? said != 0 : said == 0;
      if (visible && at > past + t) return unsupported("a mask that lets tokens see what comes after them");
      if (visible && first < 0) first = at;
      if (!visible && first >= 0 && at <= past + t) return unsupported("a mask with holes in it");
    }
    if (first < 0) return unsupported("a mask that lets a token see nothing");
    const std::int64_t seen = past + t - first + 1;
    if (first > 0 && window != 0 && window != seen) return unsupported("a mask whose window is not the same for all");
    if (first == 0 && window != 0 && seen > window) return unsupported("a mask whose window is not the same for all");
    if (first > 0) window = seen;
  }
  return window;
}

void Angles::add(const Graph& graph, const Uses& uses, const Node& node, const Value& angles) {
  // The last position's angles are among them, whatever their order.
  if (const std::int64_t last = positions_.back(); last > 0)
    for (const double angle : numbers_of(angles)) derived_.push_back(angle / static_cast<double>(last));
  std::vector<ValueId> open = node.inputs;
  std::vector<bool> seen(graph.values().size(), false);
  while (!open.empty()) {
    const auto id = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (seen[id]) continue;
    seen[id] = true;
    const Value& v = graph.values()[id];
    if (v.kind == ValueKind::constant && (v.dtype == DType::F32 || v.dtype == DType::F64) &&
        v.weight->elements() <= 4096)
      for (const double number : numbers_of(v)) exact_.push_back(number);
    if (uses.maker[id] < 0) continue;
    const Node& maker = graph.list()[static_cast<std::size_t>(uses.maker[id])];
    open.insert(open.end(), maker.inputs.begin(), maker.inputs.end());
  }
  for (auto* list : {&exact_, &derived_}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

void Angles::add_table(const Value& table) {
  const Weight& w = *table.weight;
  if (!is_float(table.dtype) || table.dims.size() != 2 || table.dims[0] < 2 || table.transposed || w.slabs.size() != 1)
    return;
  for (const Table& known : tables_)
    if (known.weight == &w) return;
  const auto row = [&](std::int64_t at) {
    std::vector<float> numbers(static_cast<std::size_t>(table.dims[1]));
    format(table.dtype).decode(w.slabs[0] + at * w.row_size(), numbers.data(), table.dims[1]);
    return numbers;
  };
  const auto first = row(0);
  Table made{
      .weight = &w, .sines = std::all_of(first.begin(), first.end(), [](float x) { return x == 0; }), .rows = {}};
  // At powers of two the angle is the frequency's own digits: float32 rounds nothing there.
  for (std::int64_t at = 1; at < table.dims[0]; at *= 2) made.rows.push_back(row(at));
  for (const Table& other : tables_) {
    if (other.sines == made.sines || other.weight->shape != w.shape) continue;
    const Table& cos = made.sines ? other : made;
    const Table& sin = made.sines ? made : other;
    for (std::size_t c = 0; c < first.size(); ++c) {
      double frequency = 0;
      for (std::size_t i = 0; i < cos.rows.size(); ++i) {
        const double position = std::ldexp(1.0, static_cast<int>(i));
        const double angle = std::atan2(static_cast<double>(sin.rows[i][c]), static_cast<double>(cos.rows[i][c]));
        const double turns = std::round((frequency * position - angle) / (2 * std::acos(-1.0)));
        frequency = (angle + 2 * std::acos(-1.0) * turns) / position;
      }
      exact_.push_back(static_cast<double>(static_cast<float>(frequency)));
    }
  }
  tables_.push_back(std::move(made));
}

double Angles::frequency(std::span<const double> cos, std::span<const double> sin) const {
  std::vector<double> key(cos.begin(), cos.end());
  key.insert(key.end(), sin.begin(), sin.end());
  const auto [known, fresh] = known_.try_emplace(std::move(key), 0.0);
  if (fresh) known->second = find(cos, sin);
  return known->second;
}

double Angles::find(std::span<const double> cos, std::span<const double> sin) const {
  const std::size_t last = positions_.size() - 1;
  const auto error_at = [&](double frequency, std::size_t t) {
    const double angle = frequency * static_cast<double>(positions_[t]);
    // Small angles have a small sine, exact relative to itself.
    const double size = std::clamp(std::abs(angle), 1e-12, 1.0);
    return std::max(std::abs(std::cos(angle) - cos[t]), std::abs(std::sin(angle) - sin[t]) / size);
  };
  // Exact where it is less than `enough`.
  const auto error = [&](double frequency, double enough) {
    double worst = 0;
    for (std::size_t t = last + 1; t-- > 0 && worst < enough;) worst = std::max(worst, error_at(frequency, t));
    return worst;
  };
  const auto each_candidate = [&](const auto& look) {
    for (const auto& [list, bonus] : {std::pair{&derived_, 1.0}, std::pair{&exact_, 0.2}})
      for (const double one : *list)
        for (const double signed_one : {one, -one}) look(signed_one, bonus);
  };
  double best = 0;
  double least = HUGE_VAL;
  // What is best at the last position bounds the search: the others are then seldom looked at any further.
  each_candidate([&](double frequency, double bonus) {
    if (const double off = error_at(frequency, last) * bonus; off < least) {
      least = off;
      best = frequency;
    }
  });
  least = error(best, HUGE_VAL);
  each_candidate([&](double frequency, double bonus) {
    if (const double off = error(frequency, least / bonus) * bonus; off < least) {
      least = off;
      best = frequency;
    }
  });
  if (least < 1e-4) return best;
  // From neighbours: the step of the angle, then the turns that were made until the last position.
  if (last == 0) return best;
  const double step =
      std::remainder(std::atan2(sin[last], cos[last]) - std::atan2(sin[last - 1], cos[last - 1]), 2 * std::acos(-1.0));
  const auto at = static_cast<double>(positions_[last]);
  const double angle = std::atan2(sin[last], cos[last]);
  const double turns = std::round((step * at - angle) / (2 * std::acos(-1.0)));
  return (angle + 2 * std::acos(-1.0) * turns) / at;
}

}  // namespace knapsack::recognition
