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

Graph replaced(const Graph& graph, const std::vector<Verdict>& verdicts) {
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    const Node& node = graph.list()[i];
    if (verdicts[i].kind != Verdict::Kind::replace || !write_equivalent(to, node, verdicts[i].by)) to.copy(node);
  }
  return to.finish();
}

Graph placed(const Graph& graph, const std::vector<Verdict>& verdicts, const std::string& unit) {
  Rewriter to(graph);
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    to.copy(graph.list()[i]);
    to.to().last().unit = verdicts[i].kind == Verdict::Kind::taken ? unit : "cpu";
  }
  return to.finish();
}

}  // namespace

Result<Graph> pass_legalize(const Graph& graph, const PassContext& context) {
  const auto& judge = context.target.judge;
  if (context.target.has == nullptr && judge == nullptr) return graph;
  TRY(Graph made, cleaned(in_parts(graph, context), context));
  if (judge == nullptr) return made;
  const auto verdicts = judge(made);
  const auto replaces = [](const Verdict& v) { return v.kind == Verdict::Kind::replace; };
  if (std::any_of(verdicts.begin(), verdicts.end(), replaces)) made = replaced(made, verdicts);
  return placed(made, judge(made), context.target.unit);
}

}  // namespace knapsack
