// What tests of alignment share: a golden model's graph, run by the scalar reference, and what was found.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "align/align.h"
#include "align/graph_source.h"
#include "import/golden.h"

namespace knapsack::testing {

using Names = std::vector<std::string>;

inline constexpr std::int64_t longest = 64;

struct GoldenGraph {
  Graph graph;
  std::vector<std::int32_t> ids;
};
inline GoldenGraph golden_graph(const std::string& model) {
  Golden golden = load_golden(model);
  auto imported = import_model(golden.folder.string(), {.ctx = longest});
  if (!imported) throw std::runtime_error(imported.error().message);
  return {std::move(imported->graph), golden.ids_a};
}

inline std::unique_ptr<Source> source(const Graph& graph, const std::string& label, std::int64_t rows = longest,
                                      DType kv = DType::F32) {
  const auto valid = verify(graph);
  if (!valid) throw std::runtime_error(valid.error().message);
  return graph_source(graph, {.label = label, .kv = kv, .ctx = longest, .rows = rows}).value();
}

inline std::vector<std::string> born(const Alignment& alignment) {
  std::vector<std::string> names;
  for (const std::size_t number : alignment.born) names.push_back(alignment.nodes[number].name);
  return names;
}

inline const AlignedNode& node(const Alignment& alignment, std::string_view name) {
  for (const AlignedNode& each : alignment.nodes)
    if (each.name == name) return each;
  throw std::runtime_error(fmt::format("no node {}", name));
}

}  // namespace knapsack::testing
