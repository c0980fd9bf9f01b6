// Masks of minus infinity become half of the lowest finite number of their type: adding a score to that stays finite,
// and its exponential is 0 just the same. NPUs that compute in integers or half floats make NaN of infinity.
#include <cmath>

#include "graph/rewrite.h"
#include "passes/pass.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 24;

// The constant without infinities below 0; null: it has none.
std::shared_ptr<const Weight> finite(const Value& v) {
  if (v.kind != ValueKind::constant || v.weight->slabs.size() != 1) return nullptr;
  const Weight& w = *v.weight;
  if ((w.dtype != DType::F32 && w.dtype != DType::F16) || w.elements() > most_elements) return nullptr;
  std::vector<float> values(static_cast<std::size_t>(w.elements()));
  format(w.dtype).decode(w.slabs[0], values.data(), w.elements());
  const float lowest = v.type() == DType::F16 ? -32752.0F : -1.7e38F;
  bool found = false;
  for (float& value : values) {
    if (!(std::isinf(value) && value < 0)) continue;
    value = lowest;
    found = true;
  }
  if (!found) return nullptr;
  std::vector<std::byte> data(static_cast<std::size_t>(w.bytes()));
  format(w.dtype).encode(values.data(), data.data(), w.elements());
  return owned_weight(w.name + ".finite", w.dtype, w.shape, std::move(data));
}

}  // namespace

Result<Graph> pass_finite_masks(const Graph& graph, const PassContext&) {
  Rewriter to(graph);
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const Value& v = graph.values()[id];
    if (const auto weight = finite(v); weight != nullptr)
      to.replace(static_cast<ValueId>(id),
                 to.to().constant(weight, {.transposed = v.transposed, .as = v.as, .name = v.name + ".finite"}));
  }
  for (const Node& node : graph.list()) to.copy(node);
  return to.finish();
}

}  // namespace knapsack
