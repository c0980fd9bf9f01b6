// Fixed shapes: a step of as many tokens as the context says, states of its whole context, one row of logits. Graphs
// that are no decoders have fixed shapes already.
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {

Result<Graph> pass_fix_shapes(const Graph& graph, const PassContext& context) {
  if (!graph.tokens()) return graph;
  if (context.step.tokens < 1 || context.step.ctx < context.step.tokens)
    return bad_input("a step of {} tokens does not fit a context of {}", context.step.tokens, context.step.ctx);
  if (*graph.tokens() > 0 && *graph.tokens() != context.step.tokens)
    return bad_input("the graph is made for steps of {} tokens, {} were asked for", *graph.tokens(),
                     context.step.tokens);
  Rewriter to(graph, context.step.tokens, context.step.ctx);
  for (const Node& node : graph.list()) {
    Attrs attrs = node.attrs;
    if (node.op == Op::positions && !attrs.has(Attr::rows)) attrs.set(Attr::rows, context.step.tokens);
    to.copy(node, to.of(node.inputs), std::move(attrs));
  }
  return to.finish();
}

}  // namespace knapsack
