// Our graph as people look at it: the view that report/ draws, and the text form of some layers.
// The one place that knows both the IR and the view. Not for drawing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "report/graph_page.h"

namespace knapsack {

// Which nodes are shown: those of these layers and those that are of none; without: all.
using GraphLayers = std::optional<std::vector<std::int64_t>>;

// "0", "0-3", "0,5". A usage error where it is no such list, or names a layer that the graph has not.
Result<GraphLayers> graph_layers(const Graph& graph, const std::string& list);

// Why nodes run where they do, by their names (Placement).
using Reasons = std::map<std::string, std::string, std::less<>>;

// Values that come from layers left out are boxes of the class "left out". notes: more facts.
GraphView graph_view(const Graph& graph, const std::string& title, const GraphLayers& layers,
                     const std::vector<std::string>& notes = {}, const Reasons& reasons = {});

// to_text, with the notes as comments; of some layers only it says what is left out, and cannot be read back.
std::string graph_text(const Graph& graph, const GraphLayers& layers, const std::vector<std::string>& notes = {});

}  // namespace knapsack
