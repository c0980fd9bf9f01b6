#include "plan/operator_types.h"
#include "plan/primitive_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace knapsack {
namespace {

using Types = std::vector<std::string>;

bool in(const Types& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool any(const Types& types, std::initializer_list<std::string_view> wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view type) { return in(types, type); });
}

std::string first_of(const Types& types, std::initializer_list<std::string_view> wanted) {
  for (const std::string_view type : wanted)
    if (in(types, type)) return std::string(type);
  return {};
}

const OpCheck* find(const OpSupport& support, CheckRule rule) {
  const auto found = std::find_if(support.checks.begin(), support.checks.end(),
                                  [&](const OpCheck& check) { return check.rule == rule; });
  return found == support.checks.end() ? nullptr : &*found;
}

// A list of nothing but what came with some version names what is new, not all that there is.
bool complete(const OpSupport& support) {
  return std::any_of(support.dtypes.begin(), support.dtypes.end(),
                     [&](const std::string& type) { return !support.dtypes_since_version.contains(type); });
}

// Tables that give types of activations and weights together say the same of operators without weights.
Types activations(const Types& types) {
  Types out;
  for (const std::string& type : types) {
    std::string each = type.starts_with("a16w") ? "int16" : type.starts_with("a8w") ? "int8" : type;
    if (!in(out, each)) out.push_back(std::move(each));
  }
  return out;
}

}  // namespace

bool is_block_format(std::string_view stored) {
  return (stored.starts_with("Q") && stored != "Q8_0") || stored.starts_with("IQ") || stored.starts_with("TQ") ||
         stored.starts_with("MXFP") || stored == "G4";
}

OperatorTypes::OperatorTypes(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain,
                             std::int64_t kv_bits)
    : graph_(graph), npu_(device.unit(UnitKind::npu)), toolchain_(toolchain), kv_bits_(kv_bits) {}

bool OperatorTypes::binds(const OpCheck& check) const {
  if (!check.before_version.empty() && !toolchain_->before(check.before_version)) return false;
  return !check.before_generation || npu_ == nullptr || !npu_->generation ||
         *npu_->generation < *check.before_generation;
}

std::string OperatorTypes::when(const OpCheck& check) const {
  if (!check.before_version.empty()) return fmt::format("before {}; this is {}", check.before_version, toolchain_->at);
  if (!check.before_generation) return {};
  if (npu_ == nullptr || !npu_->generation) return fmt::format("before generation {}", *check.before_generation);
  return fmt::format("before generation {}; this is {}", *check.before_generation, *npu_->generation);
}

bool OperatorTypes::weighted(const Node& node) const {
  return node.op == Op::MatMul && graph_.value(node.inputs[1]).kind == ValueKind::constant;
}

bool OperatorTypes::reads_cache(const Node& node) const {
  return node.op == Op::MatMul && node.origin_op == Op::attention && !weighted(node);
}

std::string OperatorTypes::stored(const Node& node) const { return stored_format(graph_.value(node.inputs[1])); }

bool OperatorTypes::has(std::string_view feature) const {
  return npu_ == nullptr || !npu_->features || in(npu_->features->value, feature);
}

bool OperatorTypes::lists(const OpSupport& support, std::string_view dtype) const { return in(listed(support), dtype); }

Types OperatorTypes::listed(const OpSupport& support) const {
  Types out;
  for (const std::string& type : support.dtypes) {
    const auto since = support.dtypes_since_version.find(type);
    if (since != support.dtypes_since_version.end() && toolchain_->before(since->second)) continue;
    const bool young = support.fp16_since_generation && npu_ != nullptr && npu_->generation &&
                       *npu_->generation < *support.fp16_since_generation;
    if (type == "fp16" && (young || !has("fp16"))) continue;
    out.push_back(type);
  }
  return out;
}

TypeChoice OperatorTypes::choose(const Node& node, const OpSupport& support, bool sensitive) const {
  const Types types = listed(support);
  if (weighted(node)) return of_weights(node, support, types);
  if (reads_cache(node)) return of_cache(support, types);
  const Types narrow = activations(types);
  if (sensitive) return {first_of(narrow, {"fp16", "bf16", "int16", "uint16", "int8", "uint8", "fp32"}), {}, {}};
  return {first_of(narrow, {"int16", "uint16", "int8", "uint8", "fp16", "bf16", "fp32"}), {}, {}};
}

std::string OperatorTypes::cache_type(const OpSupport& writer) const {
  const OpSupport* product = toolchain_ == nullptr ? nullptr : toolchain_->op("MatMul");
  if (product != nullptr && product->support != Support::no) {
    const std::string type = of_cache(*product, listed(*product)).dtype;
    const auto cross = type.find(" x ");
    if (!type.empty()) return cross == std::string::npos ? type : type.substr(cross + 3);
  }
  return first_of(activations(listed(writer)), {"fp16", "int16", "uint16", "bf16", "int8", "uint8", "fp32"});
}

std::string OperatorTypes::blocks_lost(const OpSupport& support, const Types& types) const {
  const OpSupport* trait = toolchain_ == nullptr ? nullptr : toolchain_->trait("int4_weights");
  if (trait != nullptr && trait->support == Support::no) return trait->constraint;
  if (const OpCheck* check = find(support, CheckRule::no_weight_blocks); check != nullptr && binds(*check))
    return fmt::format("only a scale a channel {}", when(*check));
  if (!has("a16w4-block"))
    return fmt::format("{} has no weights in blocks", npu_->name.empty() ? "this NPU" : npu_->name);
  if (complete(support) && !any(types, {"a16w4", "a8w4", "int4"}))
    return fmt::format("the toolchain takes {} at {}", support.name, fmt::join(types, ", "));
  return {};
}

TypeChoice OperatorTypes::of_weights(const Node& node, const OpSupport& support, const Types& types) const {
  TypeChoice out;
  const std::string& format = stored(node);
  const bool between = format.starts_with("Q5") || format.starts_with("Q6");
  out.blocks_lost = blocks_lost(support, types);
  if (out.blocks_lost.empty() && between && find(support, CheckRule::stored) == nullptr)
    out.blocks_lost = "there is no type between 4 and 8 bits";
  const bool eight = format == "Q8_0" || format == "G8" || (between && !out.blocks_lost.empty()) ||
                     find(support, CheckRule::weight_bits) != nullptr;
  if (!eight) out.dtype = first_of(types, {"a16w4", "int4", "a8w4"});
  if (out.dtype.empty()) out.dtype = first_of(types, {"a16w8"});
  // What lists activations and weights apart takes both at 8 bits, and activations at 16 where it lists these, too.
  const bool narrow = any(types, {"int8", "uint8"});
  if (out.dtype.empty() && narrow) out.dtype = any(types, {"int16", "uint16"}) ? "a16w8" : "a8w8";
  if (out.dtype.empty()) out.dtype = first_of(types, {"a8w8", "fp16", "bf16", "fp32"});
  return out;
}

TypeChoice OperatorTypes::of_cache(const OpSupport& support, const Types& types) const {
  TypeChoice out;
  const bool wide = kv_bits_ > 8;
  if (const OpCheck* pairs = find(support, CheckRule::type_pairs); pairs != nullptr && binds(*pairs)) {
    out.dtype = wide ? first_of(types, {"fp16"}) : std::string{};
    if (!out.dtype.empty()) return out;
    out.dtype = first_of(pairs->types, {"int16 x int8", "uint16 x uint8"});
    if (out.dtype.empty()) out.dtype = pairs->types.front();
    if (wide) out.kv_lost = fmt::format("types of a product are {}", fmt::join(pairs->types, ", "));
    return out;
  }
  const Types narrow = activations(types);
  if (const OpCheck* second = find(support, CheckRule::second_input_bits)) {
    const bool bound = binds(*second);
    out.dtype = any(narrow, {"int16"}) ? (wide && !bound ? "int16 x int16" : "int16 x int8")
                                       : first_of(narrow, {"int8", "uint8"});
    if (wide && bound)
      out.kv_lost = fmt::format("the second input of MatMul has {} bits {}", second->value, when(*second));
    return out;
  }
  out.dtype = wide ? first_of(narrow, {"int16", "uint16", "fp16", "bf16", "int8", "uint8", "fp32"})
                   : first_of(narrow, {"int8", "uint8", "int16", "uint16", "fp16", "bf16", "fp32"});
  if (!wide) return out;
  if (complete(support) && (out.dtype == "int8" || out.dtype == "uint8"))
    out.kv_lost = fmt::format("the toolchain takes {} at {}", support.name, fmt::join(types, ", "));
  else if (!has("kv-16bit"))
    out.kv_lost = fmt::format("{} has none", npu_->name.empty() ? "this NPU" : npu_->name);
  return out;
}

}  // namespace knapsack
