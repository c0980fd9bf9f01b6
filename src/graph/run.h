// A whole graph on given tensors, by the reference kernels: for graphs that are no decoders (tensors in, tensors out).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "graph/graph.h"

namespace knapsack {

// `inputs` in the graph's order, each with as many bytes as its input has (bad_input else). The outputs' bytes, in the
// order of Graph::outputs().
Result<std::vector<std::vector<std::byte>>> run_tensors(const Graph& graph,
                                                        std::span<const std::span<const std::byte>> inputs,
                                                        ThreadPool& pool);

}  // namespace knapsack
