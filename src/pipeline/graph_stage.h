// The stages a graph goes through, by the names people ask for them with. Not for the passes that make them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace knapsack {

struct GraphStage {
  std::string_view name;
  std::string_view what;
};
std::vector<GraphStage> graph_stages();
std::vector<std::string> graph_stage_names();

// What `imported` is at that stage. A usage error for a name that is none, with the nearest there is.
Result<Graph> graph_at_stage(const Graph& imported, std::string_view stage);

}  // namespace knapsack
