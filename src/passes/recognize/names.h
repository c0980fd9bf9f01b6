// Names a person recognises: those that importing the checkpoint would give (import/decoder.cc), by the part that a
// node has in its layer. Where a part is none of those, the imported graph's name stays.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace knapsack::recognition {

struct Names {
  std::map<ValueId, std::string> values{};     // of a node's first output, and of states
  std::map<ValueId, std::string> constants{};  // of weights
};
// graph: a decoder whose nodes all reach the output.
Names names_of(const Graph& graph);

}  // namespace knapsack::recognition
