#include "import/onnx/pins.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "graph/shape.h"

namespace knapsack::onnx {
namespace {

using Sizes = std::map<std::string, std::int64_t, std::less<>>;

constexpr std::int64_t max_size = (std::int64_t{1} << 31) - 1;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "past_sequence_length + sequence_length", as exporters name what is the sum of others.
std::optional<std::int64_t> value_of(std::string_view text, const Sizes& sizes) {
  text = trimmed(text);
  if (const auto it = sizes.find(text); it != sizes.end()) return it->second;
  if (const std::size_t plus = text.rfind('+'); plus != std::string_view::npos && plus > 0) {
    const auto a = value_of(text.substr(0, plus), sizes);
    const auto b = value_of(text.substr(plus + 1), sizes);
    if (a && b && *a + *b <= max_size) return *a + *b;
    return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 1 || number > max_size) return std::nullopt;
  return number;
}

std::string shape_text(const OnnxValue& value) {
  if (!value.shape) return "of unknown rank";
  std::string text = "[";
  for (const OnnxDim& dim : *value.shape) {
    if (text.size() > 1) text += ", ";
    text += dim.number ? fmt::format("{}", *dim.number) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text + "]";
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& each : names) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", each);
  return text.empty() ? "none" : text;
}

class Pinning {
 public:
  Pinning(const OnnxGraph& graph, const OnnxPins& pins) : pins_(pins) {
    std::set<std::string_view> initialized;
    for (const OnnxTensor& each : graph.initializers) initialized.insert(each.name);
    for (const OnnxValue& each : graph.inputs)
      if (!initialized.contains(each.name)) inputs_.push_back(&each);
  }

  Result<std::vector<PinnedInput>> run() {
    TRY_VOID(collect());
    std::vector<PinnedInput> pinned;
    std::string open;
    std::string refused;
    for (const OnnxValue* input : inputs_) {
      const auto dtype = dtype_from_onnx(input->type);
      if (input->kind != OnnxKind::tensor || !dtype) {
        refused += fmt::format(
            "{}'{}' ({})", refused.empty() ? "" : ", ", input->name,
            input->kind == OnnxKind::tensor ? onnx_type_name(input->type) : std::string(onnx_kind_name(input->kind)));
        continue;
      }
      pinned.push_back({.value = input, .dtype = *dtype});
      TRY_VOID(pin(pinned.back(), open));
    }
    if (!refused.empty())
      return unsupported(
          "inputs of types that this version does not compute with: {}; tensors of float, float16, "
          "bfloat16, double, bool and signed integers are known",
          refused);
    if (!open.empty()) return usage_error("dimensions without a size{}", open);
    return pinned;
  }

 private:
  // What the pins say of names; that each pin is for something.
  Result<void> collect() {
    std::vector<std::string> names;
    std::vector<std::string> input_names;
    for (const OnnxValue* input : inputs_) {
      input_names.push_back(input->name);
      if (!input->shape) continue;
      for (const OnnxDim& dim : *input->shape)
        if (!dim.number && !dim.symbol.empty() && std::find(names.begin(), names.end(), dim.symbol) == names.end())
          names.push_back(dim.symbol);
    }
    sizes_ = pins_.dims;
    for (const auto& [name, size] : pins_.dims) {
      if (size < 0 || size > max_size)
        return usage_error("dimension '{}' cannot be {}: expected 0 to {}", name, size, max_size);
      // A part of a sum is as good as a name of its own.
      const bool known = std::any_of(names.begin(), names.end(), [&, &n = name](const std::string& each) {
        return each.find(n) != std::string::npos;
      });
      if (!known) return usage_error("no input has a dimension '{}'; there are: {}", name, list_of(names));
    }
    for (const auto& [name, shape] : pins_.shapes) {
      const auto input = std::find_if(inputs_.begin(), inputs_.end(),
                                      [&, &n = name](const OnnxValue* each) { return each->name == n; });
      if (input == inputs_.end())
        return usage_error("there is no input '{}'; there are: {}", name, list_of(input_names));
      if (const auto fine = check_dims(filled(shape)); !fine || std::any_of(shape.begin(), shape.end(), below_0))
        return usage_error("input '{}' cannot be {}: expected sizes of 0 or more", name, dims_text(shape));
      TRY_VOID(take_shape(**input, shape));
    }
    return {};
  }

  static bool below_0(std::int64_t size) { return size < 0; }

  // A dimension of 0 hides what the others are.
  static std::vector<std::int64_t> filled(std::vector<std::int64_t> shape) {
    std::replace(shape.begin(), shape.end(), std::int64_t{0}, std::int64_t{1});
    return shape;
  }

  // A cache, beside token ids, may have no rows yet; what else is given has elements.
  [[nodiscard]] Result<void> check_empty(const PinnedInput& input) const {
    if (std::find(input.dims.begin(), input.dims.end(), 0) == input.dims.end()) return {};
    const auto whole = [](OnnxType type) { return type == OnnxType::i64 || type == OnnxType::i32; };
    const bool ids = std::any_of(inputs_.begin(), inputs_.end(), [&](const auto* each) { return whole(each->type); });
    constexpr std::size_t least = 3;
    if (ids && input.dims.size() >= least && !whole(input.value->type)) return {};
    return usage_error("input '{}' cannot be {}: only a cache may be without elements", input.value->name,
                       dims_text(input.dims));
  }

  Result<void> take_shape(const OnnxValue& input, const std::vector<std::int64_t>& shape) {
    if (!input.shape) return {};
    if (input.shape->size() != shape.size())
      return usage_error("input '{}' is {}, it cannot be {}", input.name, shape_text(input), dims_text(shape));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const OnnxDim& dim = (*input.shape)[i];
      if (dim.number && *dim.number >= 0 && *dim.number != shape[i])
        return usage_error("input '{}' is {}, it cannot be {}", input.name, shape_text(input), dims_text(shape));
      if (dim.number || dim.symbol.empty()) continue;
      const auto [it, fresh] = sizes_.emplace(dim.symbol, shape[i]);
      if (!fresh && it->second != shape[i])
        return usage_error("dimension '{}' is {} elsewhere, of input '{}' it is {}", dim.symbol, it->second, input.name,
                           shape[i]);
    }
    return {};
  }

  // Adds to `open` a line for each dimension that has no size.
  Result<void> pin(PinnedInput& input, std::string& open) {
    const OnnxValue& value = *input.value;
    const auto given = pins_.shapes.find(value.name);
    if (given != pins_.shapes.end()) {
      input.dims = given->second;
      return check_empty(input);
    }
    if (!value.shape) {
      open += fmt::format("; input '{}' has no shape: {}{}=SIZE,SIZE,...", value.name, pins_.shape_flag, value.name);
      return {};
    }
    bool unnamed = false;
    for (const OnnxDim& dim : *value.shape) {
      std::optional<std::int64_t> size;
      if (dim.number && *dim.number >= 0) {
        size = dim.number;
      } else if (!dim.symbol.empty()) {
        size = value_of(dim.symbol, sizes_);
        if (!size && said_.insert(dim.symbol).second) open += line_for(dim.symbol, value);
      } else {
        unnamed = true;
      }
      input.dims.push_back(size.value_or(1));
    }
    if (unnamed)
      open += fmt::format("; a dimension without a name of input '{}' {}: {}{}={}", value.name, shape_text(value),
                          pins_.shape_flag, value.name, example(value));
    if (const auto fine = check_dims(filled(input.dims));
        !fine || std::any_of(input.dims.begin(), input.dims.end(), below_0))
      return unsupported("input '{}' is {}: dimensions of 0 to {} are known, and at most {} of them", value.name,
                         dims_text(input.dims), max_size, max_rank);
    return check_empty(input);
  }

  // The sum's parts, where it is one: they are what is to be pinned.
  std::string line_for(const std::string& symbol, const OnnxValue& value) {
    std::string flags;
    std::size_t begin = 0;
    while (begin <= symbol.size()) {
      const std::size_t end = std::min(symbol.find('+', begin), symbol.size());
      const std::string part(trimmed(std::string_view(symbol).substr(begin, end - begin)));
      begin = end + 1;
      if (!part.empty() && !value_of(part, sizes_))
        flags += fmt::format("{}{}", flags.empty() ? "" : " ", flag_for(part));
    }
    if (flags.empty()) flags = flag_for(symbol);
    return fmt::format("; '{}' of input '{}' {}: {}", symbol, value.name, shape_text(value), flags);
  }

  // As a shell takes it.
  [[nodiscard]] std::string flag_for(const std::string& name) const {
    constexpr std::string_view special = " \t\n\"'`\\$&|;<>()[]{}*?!#~=+";
    const bool plain = name.find_first_of(special) == std::string::npos;
    const std::string_view quote = plain ? "" : "'";
    return fmt::format("{}{}{}{}=SIZE", pins_.dim_flag, quote, name, quote);
  }

  std::string example(const OnnxValue& value) {
    std::string text;
    for (const OnnxDim& dim : *value.shape) {
      const auto size = dim.number ? dim.number : value_of(dim.symbol, sizes_);
      text += fmt::format("{}{}", text.empty() ? "" : ",", size ? fmt::format("{}", *size) : "SIZE");
    }
    return text;
  }

  const OnnxPins& pins_;
  std::vector<const OnnxValue*> inputs_;
  Sizes sizes_;
  std::set<std::string> said_;
};

}  // namespace

Result<std::vector<PinnedInput>> pin_inputs(const OnnxGraph& graph, const OnnxPins& pins) {
  return Pinning(graph, pins).run();
}

}  // namespace knapsack::onnx
