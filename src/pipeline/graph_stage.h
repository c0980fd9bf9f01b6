// The stages a graph goes through, by the names people ask for them with, and the way there: the passes (src/passes)
// from what was imported, or the primitive form that exporters write. Not for what a pass does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/pass.h"

namespace knapsack {

struct GraphStage {
  std::string_view name;
  std::string_view what;
};
std::vector<GraphStage> graph_stages();
std::vector<std::string> graph_stage_names();
std::vector<std::string> pass_names();

// The step that an imported decoder in primitives is for; of other graphs: decode at a context of 4096.
StepSize step_of(const Graph& imported);

struct StagedGraph {
  Graph graph;
  std::vector<PassReport> passes{};  // those that led there
};

// What `imported` is at that stage. options: of the passes; the target stage in it is not looked at. Usage errors: a
// name that is none, with the nearest there is; a proof of a graph whose weights are not there; a step that does not
// fit the context.
Result<StagedGraph> graph_at_stage(const Graph& imported, std::string_view stage, PassOptions options,
                                   ThreadPool& pool);

}  // namespace knapsack
