// What each stage promises beyond the rules of the IR (verify.cc).
#include <cmath>

#include "graph/graph.h"
#include "graph/rewrite.h"

namespace knapsack {
namespace {

Error at(Stage stage, const Node& node, std::string_view problem) {
  return bad_input("graph, stage {}: node '{}' ({}): {}", stage_name(stage), node.name, op_info(node.op).text, problem);
}

// Nothing that training left behind, nothing that is computed for nobody.
Result<void> canonical(const Graph& graph, Stage stage) {
  const Uses uses(graph);
  for (const Node& node : graph.list()) {
    if (node.op == Op::Dropout) return at(stage, node, "is of training alone");
    if (node.op == Op::Identity && graph.value(node.inputs[0]).kind == ValueKind::computed)
      return at(stage, node, "does nothing");
    bool read = node.op == Op::kv_write;
    for (const ValueId id : node.outputs)
      read = read || uses.output[static_cast<std::size_t>(id)] || !uses.readers[static_cast<std::size_t>(id)].empty();
    if (!read) return at(stage, node, "nothing reads what it makes");
  }
  return {};
}

bool has_minus_infinity(const Value& v) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  if (v.kind != ValueKind::constant || v.weight->slabs.size() != 1 || v.weight->elements() > most) return false;
  if (v.dtype != DType::F32 && v.dtype != DType::F16) return false;
  std::vector<float> values(static_cast<std::size_t>(v.weight->elements()));
  format(v.dtype).decode(v.weight->slabs[0], values.data(), v.weight->elements());
  for (const float value : values)
    if (std::isinf(value) && value < 0) return true;
  return false;
}

Result<void> fixed(const Graph& graph, Stage stage) {
  for (const Value& v : graph.values()) {
    if (v.dynamic)
      return unsupported("graph, stage {}: '{}' has a dimension that depends on data", stage_name(stage), v.name);
    if (v.symbolic())
      return bad_input("graph, stage {}: '{}' has a dimension that is no number", stage_name(stage), v.name);
    if (v.kind == ValueKind::state && v.dims.size() != 2)
      return bad_input("graph, stage {}: state '{}' has no context", stage_name(stage), v.name);
    if (has_minus_infinity(v))
      return bad_input("graph, stage {}: constant '{}' has minus infinity in it", stage_name(stage), v.name);
  }
  return {};
}

Result<void> quantized(const Graph& graph, Stage stage) {
  for (const Value& v : graph.values()) {
    if (!v.quant) continue;
    const Quantization& q = *v.quant;
    if (q.bits < 2 || q.bits > 16 || !(q.scale > 0) || !std::isfinite(q.scale))
      return bad_input("graph, stage {}: '{}' is kept in {} bits of scale {}", stage_name(stage), v.name, q.bits,
                       q.scale);
    if (q.zero < -(std::int64_t{1} << q.bits) || q.zero > std::int64_t{1} << q.bits)
      return bad_input("graph, stage {}: '{}' has zero at {}", stage_name(stage), v.name, q.zero);
  }
  return {};
}

Result<void> partitioned(const Graph& graph, Stage stage) {
  for (const Node& node : graph.list())
    if (node.unit.empty()) return at(stage, node, "says on no unit that it runs");
  return {};
}

}  // namespace

Result<void> verify(const Graph& graph, Stage stage) {
  TRY_VOID(verify(graph));
  if (stage >= Stage::canonical) TRY_VOID(canonical(graph, stage));
  if (stage >= Stage::fixed) TRY_VOID(fixed(graph, stage));
  if (stage >= Stage::quantized) TRY_VOID(quantized(graph, stage));
  if (stage >= Stage::partitioned) TRY_VOID(partitioned(graph, stage));
  return {};
}

}  // namespace knapsack
