#include "passes/recognize/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "graph/evaluate.h"
#include "graph/rewrite.h"
#include "tensor/weight.h"

namespace knapsack::recognition {
namespace {

constexpr std::array moves{Op::Reshape, Op::Transpose, Op::Concat, Op::Slice,  Op::Split,
                           Op::Squeeze, Op::Unsqueeze, Op::Expand, Op::Gather, Op::Identity};

std::int64_t product(std::span<const std::int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

// 0, 1, ... from `first`, as a constant.
Value iota(std::vector<std::int64_t> dims, std::int32_t first) {
  const std::int64_t count = product(dims);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(std::int32_t));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::int32_t>(first + i);
    std::memcpy(bytes.data() + i * std::int64_t{sizeof number}, &number, sizeof number);
  }
  Value value{.name = "places", .kind = ValueKind::constant, .dtype = DType::I32, .dims = dims};
  value.weight = owned_weight("places", DType::I32, std::move(dims), std::move(bytes));
  return value;
}

// Its list `key` another one.
Attrs with(const Attrs& attrs, Attr key, const std::vector<std::int64_t>& list) {
  return without(attrs, {key}).set(key, list);
}

std::vector<std::int64_t> copy(std::span<const std::int64_t> list) { return {list.begin(), list.end()}; }

struct Plan {
  Attrs attrs;            // for the grid whose axis has length 1
  std::int64_t axis = 0;  // where it is behind the operator
  bool selects = false;   // of the tokens the last
};

// Row-major order is kept, so the axis is where as many elements lie before and behind it.
std::optional<Plan> reshaped(const Grid& grid, const Value& out, const Attrs& attrs) {
  const auto axis = static_cast<std::size_t>(grid.axis);
  const std::int64_t before = product(std::span(grid.dims).first(axis));
  const std::int64_t behind = product(std::span(grid.dims).subspan(axis + 1));
  for (std::size_t i = out.dims.size(); i-- > 0;) {
    const auto dims = std::span(out.dims);
    if (dims[i] != grid.length() || product(dims.first(i)) != before || product(dims.subspan(i + 1)) != behind)
      continue;
    auto shape = out.dims;
    shape[i] = 1;
    return Plan{.attrs = with(attrs, Attr::shape, shape), .axis = static_cast<std::int64_t>(i)};
  }
  return std::nullopt;
}

std::optional<Plan> sliced(const Grid& grid, const Attrs& attrs) {
  Plan plan{.attrs = {}, .axis = grid.axis};
  auto starts = copy(attrs.list(Attr::starts));
  auto ends = copy(attrs.list(Attr::ends));
  const auto axes = attrs.list(Attr::axes);
  const auto steps = attrs.list(Attr::steps);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != grid.axis) continue;
    const bool whole = starts[i] == 0 && ends[i] == grid.length() && steps[i] == 1;
    plan.selects = !whole && grid.along == Along::step && starts[i] == grid.length() - 1 && ends[i] == grid.length();
    if (!whole && !plan.selects) return std::nullopt;
    starts[i] = 0;
    ends[i] = 1;
  }
  plan.attrs = with(with(attrs, Attr::starts, starts), Attr::ends, ends);
  return plan;
}

std::optional<Plan> plan_for(const Node& node, const Grid& grid, const Value& out, const Value* index) {
  const std::int64_t axis = grid.axis;
  switch (node.op) {
    case Op::Identity:
      return Plan{.attrs = node.attrs, .axis = axis};
    case Op::Reshape:
      return reshaped(grid, out, node.attrs);
    case Op::Slice:
      return sliced(grid, node.attrs);
    case Op::Transpose: {
      const auto perm = node.attrs.list(Attr::perm);
      const auto at = std::find(perm.begin(), perm.end(), axis);
      return Plan{.attrs = node.attrs, .axis = at - perm.begin()};
    }
    case Op::Unsqueeze: {
      const auto axes = node.attrs.list(Attr::axes);
      std::int64_t old = 0;
      for (std::int64_t i = 0; i < std::ssize(out.dims); ++i) {
        if (std::find(axes.begin(), axes.end(), i) != axes.end()) continue;
        if (old++ == axis) return Plan{.attrs = node.attrs, .axis = i};
      }
      return std::nullopt;
    }
    case Op::Squeeze: {
      const auto axes = node.attrs.list(Attr::axes);
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return std::nullopt;
      const auto gone = std::count_if(axes.begin(), axes.end(), [&](std::int64_t a) { return a < axis; });
      return Plan{.attrs = node.attrs, .axis = axis - gone};
    }
    case Op::Expand: {
      auto shape = copy(node.attrs.list(Attr::shape));
      const std::int64_t ranks = std::ssize(out.dims) - std::ssize(grid.dims);
      const std::int64_t at = axis + ranks;
      const std::int64_t place = at - (std::ssize(out.dims) - std::ssize(shape));
      if (out.dims[static_cast<std::size_t>(at)] != grid.length()) return std::nullopt;
      if (place >= 0) shape[static_cast<std::size_t>(place)] = 1;
      return Plan{.attrs = with(node.attrs, Attr::shape, shape), .axis = at};
    }
    case Op::Split:
    case Op::Concat:
      if (node.attrs.i(Attr::axis) == axis) return std::nullopt;
      return Plan{.attrs = node.attrs, .axis = axis};
    case Op::Gather: {
      const std::int64_t at = node.attrs.i(Attr::axis);
      if (index == nullptr || at == axis) return std::nullopt;
      const std::int64_t ranks = std::ssize(index->dims) - 1;
      return Plan{.attrs = node.attrs, .axis = at < axis ? axis + ranks : axis};
    }
    default:
      return std::nullopt;
  }
}

std::vector<std::int32_t> numbers(const Weight& weight) {
  std::vector<std::int32_t> list(static_cast<std::size_t>(weight.elements()));
  std::memcpy(list.data(), weight.slabs[0], list.size() * sizeof(std::int32_t));
  return list;
}

// The elements at `places` of all the inputs' elements, one input's behind the other's.
Grid taken(const std::vector<const Grid*>& inputs, const std::vector<std::int32_t>& places, const Value& out,
           const Plan& plan) {
  Grid made{.dims = out.dims,
            .axis = plan.axis,
            .along = plan.selects ? Along::selected : inputs[0]->along,
            .expert = inputs[0]->expert,
            .parts = {}};
  std::size_t parts = 0;
  for (const Grid* grid : inputs) parts = std::max(parts, grid->parts.size());
  for (std::size_t p = 0; p < parts; ++p) {
    std::vector<Column> all;
    std::vector<float> scaled;
    const std::int64_t tokens = inputs[0]->length();
    bool any = false;
    for (const Grid* grid : inputs) any = any || (p < grid->parts.size() && !grid->parts[p].coefficients.empty());
    for (const Grid* grid : inputs) {
      const auto count = static_cast<std::size_t>(grid->elements());
      if (p >= grid->parts.size()) {
        all.resize(all.size() + count);
        if (any) scaled.resize(scaled.size() + count * static_cast<std::size_t>(tokens), 0.0F);
        continue;
      }
      const Part& part = grid->parts[p];
      all.insert(all.end(), part.columns.begin(), part.columns.end());
      if (!any) continue;
      if (part.coefficients.empty()) {
        scaled.resize(scaled.size() + count * static_cast<std::size_t>(tokens), 1.0F);
      } else {
        scaled.insert(scaled.end(), part.coefficients.begin(), part.coefficients.end());
      }
    }
    Part& into = made.parts.emplace_back();
    into.columns.reserve(places.size());
    for (const std::int32_t place : places) into.columns.push_back(all[static_cast<std::size_t>(place)]);
    if (!any) continue;
    into.coefficients.reserve(places.size() * static_cast<std::size_t>(tokens));
    for (const std::int32_t place : places) {
      const auto* from = scaled.data() + place * tokens;
      // Of the tokens only the last one is left, or all.
      into.coefficients.insert(into.coefficients.end(), plan.selects ? from + tokens - 1 : from, from + tokens);
    }
  }
  return made;
}

}  // namespace

bool Grid::same(const Grid& other) const {
  const bool same_axis = axis == other.axis || (length() == 1 && other.length() == 1);
  if (dims != other.dims || !same_axis || along != other.along || expert != other.expert ||
      parts.size() != other.parts.size())
    return false;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].columns != other.parts[i].columns || parts[i].coefficients != other.parts[i].coefficients)
      return false;
  return true;
}

Grid Grid::seen_along(std::int64_t wanted) const {
  Grid made = *this;
  if (length() == 1 && wanted >= 0 && wanted < std::ssize(dims) && dims[static_cast<std::size_t>(wanted)] == 1)
    made.axis = wanted;
  return made;
}

Form grid_form(Grid grid, double factor) {
  return Form{.kind = Kind::grid, .grid = std::make_shared<const Grid>(std::move(grid)), .factor = factor};
}

std::vector<Column> columns_of(ValueId base, std::int64_t columns) {
  std::vector<Column> made(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = {.base = base, .col = static_cast<std::int32_t>(i)};
  return made;
}

bool is_move(Op op) { return std::find(moves.begin(), moves.end(), op) != moves.end(); }

Moved move(const Node& node, const std::vector<const Grid*>& given, const std::vector<const Value*>& outputs,
           const Value* index) {
  // One token: the dimension it runs along is any of one that they all have and the operator leaves.
  std::vector<Grid> seen;
  seen.reserve(given.size());
  for (const Grid* grid : given) seen.push_back(grid->seen_along(given[0]->axis));
  const Grid& one = seen[0];
  for (std::int64_t axis = 0; axis < std::ssize(one.dims) && one.length() == 1; ++axis) {
    if (plan_for(node, one, *outputs[0], index)) break;
    for (Grid& grid : seen) grid = grid.seen_along(axis);
  }
  std::vector<const Grid*> inputs;
  inputs.reserve(seen.size());
  for (const Grid& grid : seen) inputs.push_back(&grid);
  for (const Grid* grid : inputs) {
    const Grid& first = *inputs[0];
    if (grid->axis != first.axis || grid->along != first.along || grid->length() != first.length() ||
        grid->expert != first.expert)
      return {.grids = {}, .why = "what it joins runs along different tokens"};
  }
  const auto plan = plan_for(node, *inputs[0], *outputs[0], index);
  if (!plan) return {.grids = {}, .why = "it mixes tokens with something else"};
  std::vector<Value> places;
  places.reserve(inputs.size());
  std::int64_t first = 0;
  for (const Grid* grid : inputs) {
    places.push_back(iota(grid->reduced(), static_cast<std::int32_t>(first)));
    first += grid->elements();
  }
  std::vector<const Value*> operands;
  operands.reserve(places.size() + 1);
  for (const Value& each : places) operands.push_back(&each);
  if (node.op == Op::Gather) operands.push_back(index);
  const auto moved = evaluate(node.op, plan->attrs, operands);
  if (!moved) return {.grids = {}, .why = moved.error().message};
  Moved made;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CHECK(product((*moved)[i]->shape) ==
              product(outputs[i]->dims) / outputs[i]->dims[static_cast<std::size_t>(plan->axis)] ||
          plan->selects);
    made.grids.push_back(taken(inputs, numbers(*(*moved)[i]), *outputs[i], *plan));
  }
  return made;
}

}  // namespace knapsack::recognition
