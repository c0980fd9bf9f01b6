// A view as one picture, all layers open.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "report/graph_layout.h"
#include "report/graph_page.h"
#include "report/plot.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

using Point = GraphLayout::Point;
constexpr double line_height = 18;

std::string safe(const std::string& text) { return escaped(valid_utf8(text)); }

// Lines bend between heights: each piece leaves and arrives vertically.
std::string curve(const std::vector<Point>& points, const Point& at) {
  std::string path = fmt::format("M{:.1f} {:.1f}", points[0].x + at.x, points[0].y + at.y);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double x0 = points[i - 1].x + at.x, y0 = points[i - 1].y + at.y;
    const double x1 = points[i].x + at.x, y1 = points[i].y + at.y, middle = (y0 + y1) / 2;
    path += x0 == x1 || y0 == y1
                ? fmt::format("L{:.1f} {:.1f}", x1, y1)
                : fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", x0, middle, x1, middle, x1, y1);
  }
  return path;
}

std::string text(double x, double y, const std::string& what, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, safe(what));
}

std::string tooltip(const GraphView& view, const GraphView::Node& node) {
  std::string out = fmt::format("{}: {}", one_line(node.name), one_line(node.op));
  for (const auto& [key, value] : node.attributes)
    std::visit([&, &at = key](const auto& held) { out += fmt::format(" {}={}", at, held); }, value);
  for (const auto& [ids, what] : {std::pair{&node.inputs, "reads"}, {&node.outputs, "makes"}})
    for (const std::size_t id : *ids)
      out += fmt::format("; {} {} {} {}", what, one_line(view.values[id].name), shape_text(view.values[id]),
                         view.values[id].dtype);
  return out;
}

}  // namespace

std::string graph_svg(const GraphView& view) {
  const GraphLayout layout = lay_out(view);
  const GraphPlaces places = place(layout);
  // Title, facts and legend stand above.
  std::set<std::size_t> used;
  for (const GraphView::Node& node : view.nodes) used.insert(node.cls);
  const double top = line_height * static_cast<double>(view.facts.size() + 3) + 12;
  double legend = 24, widest = 0;
  std::string key;
  for (const std::size_t cls : used) {
    key += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\" stroke=\"#57606a\"/>\n",
        legend, top - line_height - 10, class_colour(cls));
    key += text(legend + 18, top - line_height, view.classes[cls]);
    legend += 18 + 24 + GraphLayout::column * static_cast<double>(display_width(view.classes[cls]));
  }
  for (const std::string& fact : view.facts)
    widest = std::max(widest, GraphLayout::column * static_cast<double>(display_width(fact)));
  widest = std::max(widest, 9 * static_cast<double>(display_width(view.title)));
  const double width = std::max({places.width, legend, widest + 48}), height = places.height + top;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"monospace\" font-size=\"12\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      width, height);
  out += text(24, 28, view.title, " font-size=\"15\" font-weight=\"bold\"");
  for (std::size_t i = 0; i < view.facts.size(); ++i)
    out += text(24, 28 + line_height * static_cast<double>(i + 1), view.facts[i], " fill=\"#57606a\"");
  out += key;
  out += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", (width - places.width) / 2, top);
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const GraphLayout::Frame& frame = layout.frames[i];
    if (frame.layer < 0) continue;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"8\" fill=\"#f6f8fa\" "
        "stroke=\"#afb8c1\"/>\n",
        places.frames[i].x, places.frames[i].y, frame.width, frame.height);
  }
  out += "<g fill=\"none\" stroke=\"#6e7781\">\n";
  for (std::size_t i = 0; i < layout.frames.size(); ++i)
    for (const GraphLayout::Wire& wire : layout.frames[i].wires)
      out += fmt::format("<path d=\"{}\"/>\n", curve(wire.points, places.frames[i]));
  for (std::size_t i = 0; i < places.links.size(); ++i) {
    auto link = places.links[i];
    if (!layout.links[i].trunk) link.erase(link.begin(), link.end() - 3);
    out += fmt::format("<path d=\"{}\"/>\n", curve(link, {}));
  }
  out += "</g>\n<g fill=\"#6e7781\">\n";
  const auto arrow = [&](const Point& tip) {
    out += fmt::format("<path d=\"M{0:.1f} {1:.1f}l-3.5 -7h7z\"/>\n", tip.x, tip.y);
  };
  for (std::size_t i = 0; i < layout.frames.size(); ++i)
    for (const GraphLayout::Wire& wire : layout.frames[i].wires)
      if (wire.to >= 0) arrow({wire.points.back().x + places.frames[i].x, wire.points.back().y + places.frames[i].y});
  out += "</g>\n";
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    const GraphLayout::Frame& frame = layout.frames[i];
    if (frame.layer < 0) continue;
    const std::string title = fmt::format("layer {}", frame.layer);
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"18\" fill=\"#f6f8fa\"/>\n",
                       places.frames[i].x + 8, places.frames[i].y + 5, 8 + 7.8 * static_cast<double>(title.size()));
    out += text(places.frames[i].x + 12, places.frames[i].y + 19, title, " font-weight=\"bold\" fill=\"#57606a\"");
  }
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    const GraphView::Node& node = view.nodes[i];
    const GraphLayout::Box& box = layout.boxes[i];
    const Point at{places.frames[box.frame].x + box.x, places.frames[box.frame].y + box.y};
    out += fmt::format(
        "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" rx=\"{}\" fill=\"{}\" "
        "stroke=\"#57606a\"/>\n",
        safe(tooltip(view, node)), at.x, at.y, box.width, GraphLayout::node_height, node.source ? 18 : 5,
        class_colour(node.cls));
    out += text(at.x + box.width / 2, at.y + 17, box.label, " text-anchor=\"middle\"");
    out += text(at.x + box.width / 2, at.y + 32, box.detail, " text-anchor=\"middle\" fill=\"#424a53\"");
    out += "</g>\n";
  }
  return out + "</g>\n</svg>\n";
}

}  // namespace knapsack
