// The boxes and lines within one frame of a graph's picture. Not for where frames stand (graph_layout.h).
#pragma once

#include <vector>

#include "report/graph_layout.h"

namespace knapsack {

// Places the frame's nodes and draws its wires, in coordinates of its own; boxes: of all nodes of the graph.
void lay_out_frame(const GraphView& view, std::vector<GraphLayout::Box>& boxes, GraphLayout::Frame& frame);

}  // namespace knapsack
