// How large the form that exporters write (decompose.h, KvForm::appended) becomes, before it is made: every expert of
// every layer has nodes of its own there.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

// Unsupported: more nodes than anything is done with. (Kimi K2, 384 experts in each of 60 layers, has some 400,000.)
Result<void> decomposable(const Graph& graph);

}  // namespace knapsack
