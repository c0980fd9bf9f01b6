// A graph as something to align: lowered and run by the one executor, every float value tapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "align/source.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

namespace knapsack {

struct GraphRun {
  std::string label{};
  Isa isa = Isa::scalar;
  bool exact = true;  // float products
  DType kv = DType::F32;
  std::int64_t ctx = 128;  // tokens of a sequence
  std::int64_t rows = 32;  // tokens a step, at most; a static graph has its own
  int threads = 1;
};

// The graph must verify. One of static shapes: its context takes ctx tokens and the padding of a step behind them.
Result<std::unique_ptr<Source>> graph_source(const Graph& graph, const GraphRun& run);

}  // namespace knapsack
