// Operators of constants alone become constants, by the scalar kernels. What would make the model larger stays: a
// result of more than a MiB that is more than all it is made of.
#include <algorithm>

#include "graph/evaluate.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

constexpr std::int64_t always_bytes = std::int64_t{1} << 20;

bool worth_it(const Graph& graph, const Node& node, const std::vector<const Value*>& inputs) {
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const Value* v : inputs) before += v->weight->bytes();
  for (const ValueId id : node.outputs) {
    const Value& v = graph.value(id);
    after += v.elements() * format(v.dtype).block_bytes;
  }
  return after <= always_bytes || after <= before;
}

// The constants that it reads, in the new graph; empty: it reads something else, or has no data to compute with.
std::vector<const Value*> constants_of(Rewriter& to, const Node& node) {
  std::vector<const Value*> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId id : node.inputs) {
    const Value& old = to.from().value(id);
    if (old.kind != ValueKind::constant && !to.has(id)) return {};
    const Value& v = old.kind == ValueKind::constant ? old : to.to().value(to.of(id));
    if (v.kind != ValueKind::constant || v.weight->slabs.empty()) return {};
    inputs.push_back(&v);
  }
  return inputs;
}

}  // namespace

Result<Graph> pass_fold_constants(const Graph& graph, const PassContext&) {
  const Uses uses(graph);
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    // An output is made by a node.
    const bool output = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return uses.output[static_cast<std::size_t>(id)]; });
    const auto inputs = op_info(node.op).primitive && !output ? constants_of(to, node) : std::vector<const Value*>{};
    if (!inputs.empty() && worth_it(graph, node, inputs)) {
      // Unsupported: a size that depends on data, or more than is computed here.
      if (const auto made = evaluate(node.op, node.attrs, inputs)) {
        for (std::size_t i = 0; i < made->size(); ++i) {
          auto weight = std::make_shared<Weight>(*(*made)[i]);
          weight->name = graph.value(node.outputs[i]).name;
          to.replace(node.outputs[i], to.to().constant(std::move(weight)));
        }
        continue;
      }
    }
    to.copy(node);
  }
  return to.finish();
}

}  // namespace knapsack
