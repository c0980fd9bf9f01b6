// A view as Graphviz reads it: layers as clusters, boxes in their class's colour.
#include <fmt/format.h>

#include <map>

#include "report/graph_page.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

// Within quotes. Graphviz reads entities in labels, so an ampersand is one; control characters are spelt out.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
    if (c == '&') out += "amp;";
  }
  return out;
}

}  // namespace

std::string graph_dot(const GraphView& view) {
  std::string out = fmt::format(
      "digraph \"{0}\" {{\n  label=\"{0}\"; labelloc=t; fontname=\"sans-serif\"; fontsize=12;\n"
      "  node [shape=box, style=\"filled,rounded\", fontname=\"monospace\", fontsize=10];\n"
      "  edge [fontname=\"monospace\", fontsize=8, color=\"#57606a\"];\n",
      quoted(view.title));
  std::map<std::int64_t, std::string> clusters;
  std::map<std::size_t, std::size_t> maker;
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    const GraphView::Node& node = view.nodes[i];
    for (const std::size_t value : node.outputs) maker[value] = i;
    clusters[node.layer] += fmt::format(
        "  {}n{} [label=\"{}\\n{}\", fillcolor=\"{}\", tooltip=\"{}\"{}];\n", node.layer >= 0 ? "  " : "", i,
        quoted(node.name), quoted(node.op), class_colour(node.cls),
        quoted(node.unit.empty() ? view.classes[node.cls] : fmt::format("{}, {}", view.classes[node.cls], node.unit)),
        node.source ? ", shape=ellipse" : "");
  }
  for (const auto& [layer, nodes] : clusters) {
    if (layer < 0) {
      out += nodes;
      continue;
    }
    out +=
        fmt::format("  subgraph cluster_{0} {{\n    label=\"layer {0}\"; color=\"#8c959f\";\n{1}  }}\n", layer, nodes);
  }
  for (std::size_t i = 0; i < view.nodes.size(); ++i)
    for (const std::size_t input : view.nodes[i].inputs) {
      const auto from = maker.find(input);
      if (from == maker.end()) continue;
      const GraphView::Value& value = view.values[input];
      out += fmt::format("  n{} -> n{} [label=\"{}\", tooltip=\"{}\"];\n", from->second, i,
                         quoted(fmt::format("{} {}", shape_text(value), value.dtype)), quoted(value.name));
    }
  return out + "}\n";
}

}  // namespace knapsack
