// Rows of heads, [.., tokens * heads, columns], as some exporters norm them: told as [1, tokens, heads, columns] again,
// so that tokens lie along a dimension of their own. Nothing is computed otherwise.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace knapsack::recognition {

// The graph with each Reshape that mixes its `tokens` with heads making four dimensions instead, and what works on rows
// behind it, up to the Reshapes that put heads together again; the same graph where there is none.
Graph with_heads_apart(const Graph& graph, std::int64_t tokens);

}  // namespace knapsack::recognition
