#include "plan/operator_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace knapsack {
namespace {

using Dims = std::vector<std::int64_t>;
using Broken = std::optional<std::string>;

std::int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

class Subject {
 public:
  Subject(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  [[nodiscard]] const Value& input(std::size_t i) const { return graph_.value(node_.inputs[i]); }
  [[nodiscard]] const Dims& dims(std::size_t i = 0) const { return input(i).dims; }
  [[nodiscard]] const Dims& out() const { return graph_.value(node_.outputs[0]).dims; }
  [[nodiscard]] bool constant(std::size_t i) const {
    return i >= node_.inputs.size() || input(i).kind == ValueKind::constant;
  }

  // Of the operators that have one.
  [[nodiscard]] std::optional<std::size_t> axis() const {
    if (node_.attrs.has(Attr::axis)) return static_cast<std::size_t>(node_.attrs.i(Attr::axis));
    const bool moves = node_.op == Op::Unsqueeze || node_.op == Op::Squeeze;
    if (const auto axes = node_.attrs.list(Attr::axes); !axes.empty() && !moves)
      return static_cast<std::size_t>(axes.front());
    return {};
  }

  struct Found {
    std::string role;  // "input 0"
    const Value* value;
  };
  // The first tensor that is so, of both sides or of one.
  template <class Predicate>
  [[nodiscard]] std::optional<Found> any(Predicate predicate, bool inputs = true, bool outputs = true) const {
    for (const bool side : {true, false}) {
      if (!(side ? inputs : outputs)) continue;
      const std::vector<int>& ids = side ? node_.inputs : node_.outputs;
      for (std::size_t i = 0; i < ids.size(); ++i)
        if (const Value& tensor = graph_.value(ids[i]); predicate(tensor))
          return Found{fmt::format("{} {}", side ? "input" : "output", i), &tensor};
    }
    return std::nullopt;
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

Broken at_most(std::string_view what, std::int64_t found, std::int64_t most) {
  if (found <= most) return {};
  return fmt::format("{} is {}; at most {} is taken", what, found, most);
}

Broken ranks(const Subject& node, std::int64_t value, bool exactly) {
  const auto rank = [](const Value& each) { return std::ssize(each.dims); };
  const auto other = node.any([&](const Value& tensor) {
    return tensor.kind != ValueKind::constant && (exactly ? rank(tensor) != value : rank(tensor) > value);
  });
  if (!other) return {};
  return fmt::format("{} has {} dimensions; {}{} are taken", other->role, rank(*other->value),
                     exactly ? "" : "at most ", value);
}

Broken exported_types(const Subject& node, bool outputs, const std::vector<std::string>& types) {
  const auto other = [&](const Value& tensor) {
    const std::string_view type = onnx_type_name(tensor.type());
    return type != "bool" && std::find(types.begin(), types.end(), type) == types.end();
  };
  const auto found = node.any(other, !outputs, outputs);
  if (!found) return {};
  return fmt::format("{} is {}; {} is taken", found->role, onnx_type_name(found->value->type()),
                     fmt::join(types, " or "));
}

Broken product_dims(const Subject& node, std::int64_t most) {
  if (auto no = at_most("what is summed over", node.dims().back(), most)) return no;
  return at_most("the number of columns", node.out().back(), most);
}

Broken expanded_axes(const Subject& node, std::int64_t most) {
  const Dims& from = node.dims();
  const Dims& to = node.out();
  std::int64_t longer = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t was = i < to.size() - from.size() ? 1 : from[i - (to.size() - from.size())];
    longer += to[i] != was ? 1 : 0;
  }
  return at_most("the number of axes that become longer", longer, most);
}

Broken multiple_or_scalar(const Subject& node, std::int64_t of) {
  const Dims& dims = node.dims(1);
  if (node.input(1).elements() == 1) return {};
  if (std::any_of(dims.begin(), dims.end(), [&](std::int64_t d) { return d % of == 0; })) return {};
  return fmt::format("input 1 is [{}]; one dimension divisible by {}, or a single element, is taken",
                     fmt::join(dims, ", "), of);
}

Broken no_int64_index(const Subject& node) {
  const auto wide =
      node.any([](const Value& tensor) { return tensor.kind != ValueKind::constant && tensor.type() == DType::I64; });
  if (!wide) return {};
  return fmt::format("{} is int64; narrower indices are taken: export int32", wide->role);
}

std::int64_t rows(const Subject& node) {
  const Dims& dims = node.dims();
  return dims.empty() ? 1 : product(dims.begin(), dims.end() - 1);
}

Broken flat_depth(const Subject& node) {
  const Dims& dims = node.dims();
  if (node.axis() != dims.size() - 1 || dims.size() < 4) return {};
  if (std::find(dims.begin() + 1, dims.end(), 1) != dims.end()) return {};
  return fmt::format("the last axis of [{}] is reduced; it is taken where another one is 1", fmt::join(dims, ", "));
}

Broken of_axis(const OpCheck& check, const Subject& node) {
  const auto axis = node.axis();
  if (!axis) return {};
  const std::int64_t size = node.dims()[*axis];
  if (check.rule == CheckRule::max_axis_size)
    return at_most(fmt::format("axis {} of input 0", *axis), size, check.value);
  if (check.rule == CheckRule::last_axis)
    return *axis + 1 == node.dims().size()
               ? Broken{}
               : fmt::format("its axis is {} of {}; the last is taken", *axis, node.dims().size());
  return *axis == static_cast<std::size_t>(check.value)
             ? Broken{}
             : fmt::format("its axis is {}; {} is taken", *axis, check.value);
}

}  // namespace

bool is_dynamic(const Graph& graph, const Node& node) {
  const auto is = [&](int id) { return graph.value(id).dynamic; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is);
}

bool is_type_rule(CheckRule rule) {
  return rule == CheckRule::type_pairs || rule == CheckRule::second_input_bits || rule == CheckRule::weight_bits ||
         rule == CheckRule::no_weight_blocks || rule == CheckRule::stored;
}

std::optional<std::string> broken(const OpCheck& check, const Graph& graph, const Node& of, bool stand_in) {
  const Subject node(graph, of);
  const Dims& dims = node.dims();
  switch (check.rule) {
    case CheckRule::always:
    case CheckRule::type_pairs:
    case CheckRule::second_input_bits:
    case CheckRule::weight_bits:
    case CheckRule::no_weight_blocks:
    case CheckRule::stored:
      return {};
    case CheckRule::axis:
    case CheckRule::last_axis:
    case CheckRule::max_axis_size:
      return of_axis(check, node);
    case CheckRule::batch:
      if (dims.empty() || dims[0] == check.value) return {};
      return fmt::format("the first dimension of input 0 is {}; {} is taken", dims[0], check.value);
    case CheckRule::constant_input:
      if (stand_in || node.constant(static_cast<std::size_t>(check.value))) return {};
      return fmt::format("input {} is computed; a constant is taken", check.value);
    case CheckRule::max_constant_inputs: {
      std::int64_t constants = 0;
      for (std::size_t i = 0; i < of.inputs.size(); ++i) constants += node.constant(i) ? 1 : 0;
      return at_most("the number of constant inputs", constants, check.value);
    }
    case CheckRule::flat_depth:
      return flat_depth(node);
    case CheckRule::input_type:
      return exported_types(node, false, check.types);
    case CheckRule::output_type:
      return exported_types(node, true, check.types);
    case CheckRule::max_elements:
      return at_most("the number of elements", node.input(0).elements(), check.value);
    case CheckRule::max_expanded_axes:
      return expanded_axes(node, check.value);
    case CheckRule::max_last:
      return dims.empty() ? Broken{} : at_most("the last dimension", dims.back(), check.value);
    case CheckRule::max_rows:
      return at_most("the product of all dimensions but the last", rows(node), check.value);
    case CheckRule::max_outer:
      return dims.size() < 3 ? Broken{}
                             : at_most("the product of all dimensions but the last two",
                                       product(dims.begin(), dims.end() - 2), check.value);
    case CheckRule::max_product_dim:
      return product_dims(node, check.value);
    case CheckRule::max_rank:
      return ranks(node, check.value, false);
    case CheckRule::rank:
      return ranks(node, check.value, true);
    case CheckRule::multiple_or_scalar:
      return stand_in ? Broken{} : multiple_or_scalar(node, check.value);
    case CheckRule::no_broadcast: {
      const auto other = node.any([&](const Value& each) { return each.dims != dims; });
      return other ? fmt::format("{} has another shape than input 0", other->role) : Broken{};
    }
    case CheckRule::no_int64_index:
      return no_int64_index(node);
    case CheckRule::static_shape:
      return is_dynamic(graph, of) ? Broken{"a size depends on data; static shapes are taken"} : Broken{};
  }
  CHECK(false);
}

std::optional<std::string> kept_reshaped(const OpCheck& check, const Graph& graph, const Node& of) {
  const Subject node(graph, of);
  std::size_t most = 0;
  std::size_t leading = SIZE_MAX;  // ones that every tensor begins with
  (void)node.any([&](const Value& tensor) {
    if (tensor.kind == ValueKind::constant || tensor.dims.empty()) return false;
    const Dims& dims = tensor.dims;
    most = std::max(most, dims.size());
    leading = std::min(
        leading, static_cast<std::size_t>(
                     std::find_if(dims.begin(), dims.end(), [](std::int64_t d) { return d != 1; }) - dims.begin()));
    return false;
  });
  const auto value = static_cast<std::size_t>(check.value);
  switch (check.rule) {
    case CheckRule::rank:
      if (most < value) return "between Reshapes that add leading dimensions of 1";
      [[fallthrough]];
    case CheckRule::max_rank:
      if (most > value && most - value <= leading) return "between Reshapes that drop leading dimensions of 1";
      return {};
    case CheckRule::batch:
      if (most < 4) return "between Reshapes that add a leading dimension of 1";
      return {};
    case CheckRule::flat_depth:
      return "between Reshapes that join the dimensions before the last";
    default:
      return {};
  }
}

}  // namespace knapsack
