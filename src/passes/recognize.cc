// Recognition: a decoder that was imported in primitive operators, with its cache appended to, becomes the decoder that
// importing its checkpoint gives. recognize/recognize.h says how. What is no decoder stays as it is.
#include "passes/recognize/recognize.h"
#include "passes/pass.h"

namespace knapsack {

Result<Graph> pass_recognize(const Graph& graph, const PassContext& context) {
  if (graph.tokens()) return graph;
  auto made = recognize_decoder(graph, context.data);
  if (made) {
    if (context.was_for != nullptr) context.was_for({.tokens = made->tokens, .ctx = made->past + made->tokens});
    if (context.note != nullptr && !made->note.empty()) context.note(made->note);
    return std::move(made->graph);
  }
  if (made.error().code != Code::unsupported) return made.error();
  if (context.note != nullptr) context.note("not recognised as a decoder: " + made.error().message);
  return graph;
}

}  // namespace knapsack
