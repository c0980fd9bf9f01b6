// Which frame a node stands in, and the lines from frame to frame.
#include "report/graph_layout.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "report/graph_frame.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

using Layout = GraphLayout;
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
constexpr double lane_gap = Layout::lane_gap, row_gap = Layout::row_gap, frame_gap = Layout::frame_gap;
constexpr double edge = Layout::edge;
constexpr std::size_t label_columns = 38;

// Which frame each node belongs to: its layer's; of none, one before all layers, one behind them, and one each for what
// stands between two. Gives back the one behind the layers, or none.
std::size_t choose_frames(const GraphView& view, std::span<const std::size_t> maker, GraphLayout& layout) {
  std::vector<std::vector<std::size_t>> readers(view.nodes.size());
  std::vector<char> after(view.nodes.size(), 0), before(view.nodes.size(), 0);  // some layer
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    if (view.nodes[i].left_out) after[i] = 1;
    for (const std::size_t value : view.nodes[i].inputs) {
      const std::size_t from = maker[value];
      if (from == none) continue;
      readers[from].push_back(i);
      if (view.nodes[from].layer >= 0 || after[from] != 0) after[i] = 1;
    }
  }
  for (std::size_t i = view.nodes.size(); i-- > 0;)
    for (const std::size_t reader : readers[i])
      if (view.nodes[reader].layer >= 0 || before[reader] != 0) before[i] = 1;
  std::map<std::int64_t, std::size_t> of_layer;
  constexpr std::int64_t head = -1, tail = -2;
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    const std::int64_t layer = view.nodes[i].layer;
    std::size_t frame = layout.frames.size();
    const bool alone = layer < 0 && after[i] != 0 && before[i] != 0;
    if (!alone) {
      const auto [it, fresh] = of_layer.try_emplace(layer >= 0 ? layer : after[i] != 0 ? tail : head, frame);
      frame = it->second;
    }
    if (frame == layout.frames.size()) layout.frames.push_back({.layer = layer});
    layout.frames[frame].nodes.push_back(i);
    layout.boxes[i].frame = frame;
  }
  const auto behind = of_layer.find(tail);
  return behind == of_layer.end() ? none : behind->second;
}

// Links between frames, the frames' ports, and rows by longest path. Frames stand in the order of their first node; a
// link against that order counts for no row.
void link_frames(const GraphView& view, std::span<const std::size_t> maker, std::size_t tail, GraphLayout& layout) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> in, out;  // frame and value -> port
  std::set<std::pair<std::size_t, std::size_t>> linked;                // frame and value
  const auto port = [](auto& ports, std::vector<Layout::Port>& list, std::size_t frame, std::size_t value) {
    const auto [it, fresh] = ports.try_emplace({frame, value}, list.size());
    if (fresh) list.push_back({.value = value});
    return it->second;
  };
  for (std::size_t i = 0; i < view.nodes.size(); ++i)
    for (const std::size_t value : view.nodes[i].inputs) {
      if (maker[value] == none) continue;
      const std::size_t from = layout.boxes[maker[value]].frame, to = layout.boxes[i].frame;
      if (from == to || !linked.emplace(to, value).second) continue;
      Layout::Link link{.value = value, .from = from, .to = to};
      link.from_port = port(out, layout.frames[from].out, from, value);
      link.to_port = port(in, layout.frames[to].in, to, value);
      layout.links.push_back(link);
    }
  std::vector<std::vector<std::size_t>> below(layout.frames.size());
  for (const Layout::Link& link : layout.links)
    if (link.from < link.to) below[link.from].push_back(link.to);
  // Layers stand in their order, what is behind all of them last, also where what joins them is left out.
  std::map<std::int64_t, std::size_t> stack;
  for (std::size_t i = 0; i < layout.frames.size(); ++i)
    if (layout.frames[i].layer >= 0) stack[layout.frames[i].layer] = i;
  if (tail != none) stack[std::numeric_limits<std::int64_t>::max()] = tail;
  for (auto it = stack.begin(), last = it; it != stack.end(); last = it++)
    if (it != last && last->second < it->second) below[last->second].push_back(it->second);
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    for (const std::size_t to : below[i])
      layout.frames[to].row = std::max(layout.frames[to].row, layout.frames[i].row + 1);
    layout.rows = std::max(layout.rows, layout.frames[i].row + 1);
  }
  // What nothing leads to comes down to what reads it.
  for (std::size_t i = 0; i < layout.frames.size(); ++i) {
    Layout::Frame& frame = layout.frames[i];
    if (frame.layer >= 0 || !frame.in.empty() || below[i].empty() || i == tail) continue;
    std::size_t first = none;
    for (const std::size_t to : below[i]) first = std::min(first, layout.frames[to].row);
    if (first > 0) frame.row = first - 1;
  }
  // A lane a value, free from the gap it enters to the gap it leaves.
  struct Span {
    std::size_t begin, end;
    std::ptrdiff_t first = -1, last = -1;  // links to the highest and the lowest row
  };
  std::map<std::pair<std::size_t, std::size_t>, Span> spans;
  const auto far = [&](const Layout::Link& link) {
    return layout.frames[link.to].row != layout.frames[link.from].row + 1;
  };
  for (const Layout::Link& link : layout.links) {
    if (!far(link)) continue;
    const std::size_t a = layout.frames[link.from].row + 1, b = layout.frames[link.to].row;  // gaps
    auto [it, fresh] = spans.try_emplace({link.from, link.from_port}, Span{std::min(a, b), std::max(a, b)});
    it->second.begin = std::min({it->second.begin, a, b});
    it->second.end = std::max({it->second.end, a, b});
  }
  std::vector<std::pair<std::size_t, std::pair<std::size_t, std::size_t>>> by_begin;
  by_begin.reserve(spans.size());
  for (const auto& [key, span] : spans) by_begin.emplace_back(span.begin, key);
  std::sort(by_begin.begin(), by_begin.end());
  std::vector<std::size_t> taken;  // up to which gap
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> lane_of;
  for (const auto& [begin, key] : by_begin) {
    std::size_t lane = 0;
    while (lane < taken.size() && taken[lane] >= begin) ++lane;
    if (lane == taken.size()) taken.push_back(0);
    taken[lane] = spans.at(key).end;
    lane_of[key] = lane;
  }
  layout.lanes = taken.size();
  const auto row_to = [&](std::ptrdiff_t i) { return layout.frames[layout.links[static_cast<std::size_t>(i)].to].row; };
  for (std::size_t i = 0; i < layout.links.size(); ++i) {
    Layout::Link& link = layout.links[i];
    if (!far(link)) continue;
    link.lane = static_cast<std::ptrdiff_t>(lane_of.at({link.from, link.from_port}));
    link.trunk = false;
    Span& span = spans.at({link.from, link.from_port});
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (span.first < 0 || row_to(at) < row_to(span.first)) span.first = at;
    if (span.last < 0 || row_to(at) > row_to(span.last)) span.last = at;
  }
  for (const auto& [key, span] : spans)
    for (const std::ptrdiff_t link : {span.first, span.last}) {
      const std::size_t gap = layout.frames[key.first].row + 1;
      // Up and down from the gap where it enters: a line each, but none that the other covers.
      if (link == span.last || row_to(link) < gap) layout.links[static_cast<std::size_t>(link)].trunk = true;
    }
}

}  // namespace

GraphLayout lay_out(const GraphView& view) {
  GraphLayout layout;
  layout.boxes.resize(view.nodes.size());
  std::vector<std::size_t> maker(view.values.size(), none);
  for (std::size_t i = 0; i < view.nodes.size(); ++i) {
    const GraphView::Node& node = view.nodes[i];
    for (const std::size_t value : node.outputs) maker[value] = i;
    Layout::Box& box = layout.boxes[i];
    box.label = short_name(node.name, node.layer, label_columns);
    box.detail = one_line(node.op);
    if (!node.outputs.empty() && !view.values[node.outputs.front()].shape.empty())
      box.detail += fmt::format("  {} {}", shape_text(view.values[node.outputs.front()]),
                                view.values[node.outputs.front()].dtype);
    box.detail = short_name(box.detail, -1, label_columns);
    constexpr double inside = 20, least = 84;
    const auto columns = std::max(display_width(box.label), display_width(box.detail));
    box.width = std::max(least, static_cast<double>(columns) * Layout::column + inside);
  }
  const std::size_t tail = choose_frames(view, maker, layout);
  link_frames(view, maker, tail, layout);
  for (Layout::Frame& frame : layout.frames) lay_out_frame(view, layout.boxes, frame);
  return layout;
}

GraphPlaces place(const GraphLayout& layout) {
  GraphPlaces places;
  places.frames.resize(layout.frames.size());
  std::vector<std::vector<std::size_t>> rows(layout.rows);
  for (std::size_t i = 0; i < layout.frames.size(); ++i) rows[layout.frames[i].row].push_back(i);
  std::vector<double> width(layout.rows, 0), bottom(layout.rows, 0), top(layout.rows, 0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const std::size_t frame : rows[r]) width[r] += layout.frames[frame].width + frame_gap;
    width[r] -= frame_gap;
    places.width = std::max(places.width, width[r]);
  }
  double y = edge;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double x = edge + (places.width - width[r]) / 2, tallest = 0;
    top[r] = y;
    for (const std::size_t frame : rows[r]) {
      places.frames[frame] = {x, y};
      x += layout.frames[frame].width + frame_gap;
      tallest = std::max(tallest, layout.frames[frame].height);
    }
    bottom[r] = y + tallest;
    y = bottom[r] + row_gap;
  }
  const double right = edge + places.width + 2 * edge;
  for (const Layout::Link& link : layout.links) {
    const Layout::Frame &from = layout.frames[link.from], &to = layout.frames[link.to];
    const double x0 = places.frames[link.from].x + from.out[link.from_port].x;
    const double x1 = places.frames[link.to].x + to.in[link.to_port].x;
    std::vector<Layout::Point> points{{x0, places.frames[link.from].y + from.height}, {x0, bottom[from.row]}};
    if (link.lane >= 0) {
      const double x = right + static_cast<double>(link.lane) * lane_gap;
      const double spread = 12 + static_cast<double>(link.lane % 8) * 3;  // so that lines in a gap lie apart
      points.push_back({x0, bottom[from.row] + spread});
      points.push_back({x, bottom[from.row] + spread});
      points.push_back({x, top[to.row] - spread});
      points.push_back({x1, top[to.row] - spread});
    }
    points.push_back({x1, top[to.row]});
    places.links.push_back(std::move(points));
  }
  places.width = right + static_cast<double>(layout.lanes) * lane_gap;
  places.height = y - row_gap + edge;
  return places;
}

}  // namespace knapsack
