#include "pipeline/graph_stage.h"

#include <fmt/ranges.h>

#include <array>
#include <span>

#include "base/nearest.h"
#include "base/utf8.h"
#include "graph/decompose/decompose.h"

namespace knapsack {
namespace {

// What a step of one token sees behind it, where a graph is written as exporters write it.
constexpr std::int64_t usual_past = 4095;

Graph as_it_is(const Graph& graph) { return graph; }
Graph primitive(const Graph& graph) { return decompose(graph, {.tokens = 1, .past = usual_past}); }

struct Way {
  GraphStage stage;
  Graph (*make)(const Graph& imported);
};
std::span<const Way> all_ways() {
  static const std::array ways{
      Way{{stage_name(Stage::imported), stage_text(Stage::imported)}, as_it_is},
      Way{{"primitive", "in ONNX's operators, as exporters write a step of one token behind 4095"}, primitive},
  };
  return ways;
}

}  // namespace

std::vector<GraphStage> graph_stages() {
  std::vector<GraphStage> stages;
  stages.reserve(all_ways().size());
  for (const Way& way : all_ways()) stages.push_back(way.stage);
  return stages;
}

std::vector<std::string> graph_stage_names() {
  std::vector<std::string> names;
  names.reserve(all_ways().size());
  for (const Way& way : all_ways()) names.emplace_back(way.stage.name);
  return names;
}

Result<Graph> graph_at_stage(const Graph& imported, std::string_view stage) {
  for (const Way& way : all_ways())
    if (way.stage.name == stage) return way.make(imported);
  const auto names = graph_stage_names();
  const std::string near = nearest(stage, names);
  return usage_error("stage: expected one of {}, found {}{}", fmt::join(names, ", "), printable(stage),
                     near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

}  // namespace knapsack
