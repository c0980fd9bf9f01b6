// A part of layout: convolutions, pools and what stands between them on blocks of channels, [N, C / block, .., block],
// between two reorderings at the borders.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace knapsack {

// data: weights are there, and those of channels that do not fill a block are padded with zeros.
Graph in_blocks(const Graph& graph, std::int64_t block, bool data);

}  // namespace knapsack
