// A view as one HTML file: graph_page.html, with the view and where its boxes stand as JSON in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "report/graph_layout.h"
#include "report/graph_page.h"
#include "report/plot.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr std::string_view page =
#include "report/graph_page.inc"
    ;

// As the text of a <script>: no '<' may stand in it, whatever a name holds.
std::string text(const std::string& what) {
  std::string json, out;
  append_json_string(json, valid_utf8(what));
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

template <class T, class F>
std::string list(const T& items, F&& item) {
  std::string out = "[";
  for (const auto& each : items) {
    if (out.size() > 1) out += ',';
    out += item(each);
  }
  return out + "]";
}
std::string numbers(const std::vector<std::size_t>& items) {
  return list(items, [](std::size_t n) { return fmt::format("{}", n); });
}
std::string coordinate(double x) { return fmt::format("{:.5g}", std::round(x * 10) / 10); }

std::string attribute(const GraphView::Attribute& each) {
  return fmt::format("[{},{}]", text(each.first),
                     text(std::visit([](const auto& held) { return fmt::format("{}", held); }, each.second)));
}

// What a closed layer says of itself.
std::string summary(const GraphView& view, const GraphLayout::Frame& frame) {
  std::set<std::size_t> weights;
  std::size_t count = 0;
  for (const std::size_t node : frame.nodes) {
    if (!view.nodes[node].source) ++count;
    for (const std::size_t input : view.nodes[node].inputs)
      if (view.values[input].kind == GraphView::Kind::constant) weights.insert(input);
  }
  std::int64_t bytes = 0;
  for (const std::size_t weight : weights) bytes += view.values[weight].bytes.value_or(0);
  const std::string nodes =
      fmt::format("{} node{}", format_count(static_cast<long long>(count)), count == 1 ? "" : "s");
  return bytes > 0 ? fmt::format("{}, {} of weights", nodes, format_bytes(static_cast<double>(bytes))) : nodes;
}

std::string data(const GraphView& view) {
  const GraphLayout layout = lay_out(view);
  const auto port = [](const GraphLayout::Port& p) { return fmt::format("[{},{}]", p.value, coordinate(p.x)); };
  std::string out = fmt::format("{{\"title\":{},\"facts\":{},\"classes\":{}", text(view.title), list(view.facts, text),
                                list(view.classes, text));
  out += ",\"colours\":[";
  for (std::size_t i = 0; i < class_colours; ++i) out += fmt::format("{}\"{}\"", i == 0 ? "" : ",", class_colour(i));
  out += fmt::format(
      "],\"measures\":{{\"nodeHeight\":{},\"closedWidth\":{},\"closedHeight\":{},\"rowGap\":{},\"frameGap\":{},"
      "\"laneGap\":{},\"edge\":{}}}",
      GraphLayout::node_height, GraphLayout::closed_width, GraphLayout::closed_height, GraphLayout::row_gap,
      GraphLayout::frame_gap, GraphLayout::lane_gap, GraphLayout::edge);
  out += fmt::format(",\"lanes\":{},\"outputs\":{}", layout.lanes, numbers(view.outputs));
  out += fmt::format(",\n\"values\":{}", list(view.values, [&](const GraphView::Value& value) {
                       return fmt::format("\n[{},{},{},{},{},{},{}]", text(value.name), static_cast<int>(value.kind),
                                          text(shape_text(value)), text(value.dtype), text(format_text(value)),
                                          text(bytes_text(value)), text(value.note));
                     }));
  std::size_t i = 0;
  out += fmt::format(",\n\"nodes\":{}", list(view.nodes, [&](const GraphView::Node& node) {
                       const GraphLayout::Box& box = layout.boxes[i++];
                       const std::int64_t weights = weight_bytes(view, node);
                       return fmt::format("\n[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]",
                                          text(node.name), text(node.op), node.cls, node.layer, text(node.unit),
                                          text(node.why), text(node.origin), text(node.purpose), node.source ? 1 : 0,
                                          list(node.attributes, attribute), numbers(node.inputs), numbers(node.outputs),
                                          text(weights > 0 ? format_bytes(static_cast<double>(weights)) : ""),
                                          box.frame, coordinate(box.x), coordinate(box.y), coordinate(box.width),
                                          text(box.label), text(box.detail));
                     }));
  const auto wire = [](const GraphLayout::Wire& w) {
    return fmt::format("[{},{},{},{}]", w.value, w.from, w.to, list(w.points, [](const GraphLayout::Point& p) {
                         return fmt::format("{},{}", coordinate(p.x), coordinate(p.y));
                       }));
  };
  out += fmt::format(",\n\"frames\":{}", list(layout.frames, [&](const GraphLayout::Frame& frame) {
                       return fmt::format("\n[{},{},{},{},{},{},{},{},{}]", frame.layer, frame.row,
                                          coordinate(frame.width), coordinate(frame.height), text(summary(view, frame)),
                                          numbers(frame.nodes), list(frame.in, port), list(frame.out, port),
                                          list(frame.wires, wire));
                     }));
  out += fmt::format(",\n\"links\":{}}}", list(layout.links, [](const GraphLayout::Link& link) {
                       return fmt::format("[{},{},{},{},{},{},{}]", link.value, link.from, link.from_port, link.to,
                                          link.to_port, link.lane, link.trunk ? 1 : 0);
                     }));
  return out;
}

}  // namespace

std::string graph_html(const GraphView& view) {
  std::string out;
  std::string_view rest = page;
  for (const auto& [mark, what] : {std::pair{"{{TITLE}}", escaped(valid_utf8(view.title))}, {"{{DATA}}", data(view)}}) {
    const auto at = rest.find(mark);
    CHECK(at != std::string_view::npos);
    out += rest.substr(0, at);
    out += what;
    rest.remove_prefix(at + std::string_view(mark).size());
  }
  return out += rest;
}

}  // namespace knapsack
