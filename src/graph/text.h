// What a graph's text form (graph.h: to_text, graph_from_text) is known by.
#pragma once

#include <string_view>

namespace knapsack {

// Whether a file that begins so is meant to be such a text; 32 bytes are enough.
bool begins_as_graph_text(std::string_view start);

}  // namespace knapsack
