// Ops that the target lacks are written in those it has, in this order: a fused op in the ops it is made of and a
// decoder's op in primitives, without repeated heads, which are of five dimensions; an operator that is refused in
// others that compute the same (graph/equivalents.inc). What is refused still runs on the CPU. So every node says its
// unit, where the target judges them. Not for which pieces become one program of the device: that is partitioned later.
#include <algorithm>

#include "graph/decompose/decompose.h"
#include "graph/decompose/unfuse.h"
#include "graph/equivalents.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

Graph in_parts(const Graph& graph, const PassContext& context) {
  const auto& has = context.target.has;
  if (has == nullptr) return graph;
  Graph parts = unfuse(graph, [&](const Node& node) { return !has(graph, node); });
  const auto lacks = [&](const Node& node) { return !op_info(node.op).primitive && !has(parts, node); };
  if (std::none_of(parts.list().begin(), parts.list().end(), lacks)) return parts;
  if (!parts.tokens()) return parts;  // primitives all
  return decompose(parts, {.tokens = context.step.tokens,
                           .kv = KvForm::indexed,
                           .ctx = context.step.ctx,
                           .floats = DType::F32,
                           .decomposes = lacks});
}

// What taking apart leaves: twice the same table, sums of constants, repeated heads, rows made tensors and rows again.
Result<Graph> cleaned(const Graph& graph, const PassContext& context) {
  TRY(const Graph folded, pass_fold_constants(graph, context));
  TRY(const Graph merged, pass_merge_common(folded, context));
  TRY(const Graph scaled, pass_fuse_scales(merged, context));
  TRY(const Graph grouped, pass_group_heads(scaled, context));
  TRY(const Graph straight, pass_merge_reshapes(grouped, context));
  return pass_drop_dead(straight, context);
}

Graph replaced(const Graph& graph, const std::vector<Placement>& placements) {
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (placements[i].kind != Placement::Kind::replace || !write_equivalent(to, node, placements[i].by)) to.copy(node);
  }
  return to.finish();
}

Graph placed(const Graph& graph, const std::vector<Placement>& placements, const Target& target) {
  const auto unit = [&](const Placement& placement) {
    if (placement.kind == Placement::Kind::ahead) return std::string("ahead");
    return placement.kind == Placement::Kind::taken ? target.unit : target.other;
  };
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    to.copy(graph.list()[i]);
    to.to().last().unit = unit(placements[i]);
  }
  return to.finish();
}

// Those of which there is something to say.
void tell(const Graph& graph, const std::vector<Placement>& placements, bool replaced, std::vector<PlacedNode>& told) {
  for (std::size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    if ((p.kind == Placement::Kind::replace) != replaced || (p.by.empty() && p.why.empty())) continue;
    told.push_back({.name = graph.list()[i].name, .placement = p});
  }
}

}  // namespace

Result<Graph> pass_legalize(const Graph& graph, const PassContext& context) {
  const auto& judge = context.target.judge;
  if (context.target.has == nullptr && judge == nullptr) return graph;
  TRY(Graph made, cleaned(in_parts(graph, context), context));
  if (judge == nullptr) return made;
  std::vector<PlacedNode> told;
  auto placements = judge(made);
  const auto replaces = [](const Placement& p) { return p.kind == Placement::Kind::replace; };
  if (std::any_of(placements.begin(), placements.end(), replaces)) {
    tell(made, placements, true, told);
    made = replaced(made, placements);
    placements = judge(made);
  }
  tell(made, placements, false, told);
  if (context.placed != nullptr) context.placed(std::move(told));
  return placed(made, placements, context.target);
}

}  // namespace knapsack
