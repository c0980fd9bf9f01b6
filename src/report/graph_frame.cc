// Layered drawing after Sugiyama, Tagawa and Toda (1981): ranks by longest path, long lines through places of their
// own, order by means of neighbours, then columns by least squares that keep the order.
#include "report/graph_frame.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>

namespace knapsack {
namespace {

using Layout = GraphLayout;
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
constexpr double rank_gap = 34, box_gap = 22, line_gap = 14, lane_gap = Layout::lane_gap;
constexpr double header = 30, padding = 16;  // of a frame
// A line over more ranks goes along the side of its frame, so that a flat graph of 10,000 nodes stays small.
constexpr std::size_t longest_through = 48;

// What stands in a rank: a box, a port, or a line that passes.
struct Place {
  std::size_t rank = 0;
  double width = 0;
  std::vector<std::size_t> up{}, down{};  // neighbours in the ranks above and below
  bool passes = false;                    // a line, and not a box
  bool port = false;                      // where one comes in or leaves
  double order = 0;
  double x = 0;  // the middle
};

// Columns of one rank: as near to where each wants to be as order and widths allow, by least squares (pool adjacent
// violators: Ayer et al. 1955).
void settle(std::vector<Place>& places, const std::vector<std::size_t>& rank, std::span<const double> wanted,
            std::span<const double> weight) {
  struct Block {
    double sum, weight;
    std::size_t count;
    [[nodiscard]] double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  std::vector<double> offset(rank.size(), 0);
  for (std::size_t i = 1; i < rank.size(); ++i) {
    const Place &a = places[rank[i - 1]], &b = places[rank[i]];
    offset[i] = offset[i - 1] + (a.width + b.width) / 2 + (a.passes || b.passes ? line_gap : box_gap);
  }
  blocks.reserve(rank.size());
  for (std::size_t i = 0; i < rank.size(); ++i) {
    blocks.push_back({(wanted[i] - offset[i]) * weight[i], weight[i], 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().sum += last.sum;
      blocks.back().weight += last.weight;
      blocks.back().count += last.count;
    }
  }
  std::size_t i = 0;
  for (const Block& block : blocks)
    for (const std::size_t end = i + block.count; i < end; ++i) places[rank[i]].x = block.mean() + offset[i];
}

// Lays out one frame. The graph knows all; `inside` says which nodes are this frame's.
class FrameLayout {
 public:
  FrameLayout(const GraphView& view, std::vector<Layout::Box>& boxes, Layout::Frame& frame)
      : view_(view), boxes_(boxes), frame_(frame) {}

  void run() {
    find_places();
    find_lines();
    rank();
    connect();
    order();
    columns();
    write();
  }

 private:
  // A line of the frame between two places.
  struct Line {
    std::size_t value = 0, from = 0, to = 0;
    std::vector<std::size_t> through{};
    std::ptrdiff_t lane = -1;
  };

  std::size_t add(double width, bool passes, std::size_t at_rank = 0) {
    places_.push_back({.rank = at_rank, .width = width, .passes = passes});
    return places_.size() - 1;
  }

  std::size_t add_port() {
    const std::size_t place = add(2, true);
    places_[place].port = true;
    return place;
  }

  void find_places() {
    for (const std::size_t node : frame_.nodes) place_of_node_[node] = add(boxes_[node].width, false);
    for (std::size_t i = 0; i < frame_.in.size(); ++i) place_of_in_[frame_.in[i].value] = add_port();
    for (std::size_t i = 0; i < frame_.out.size(); ++i) place_of_out_[frame_.out[i].value] = add_port();
  }

  void find_lines() {
    std::map<std::size_t, std::size_t> made_by;
    for (const std::size_t node : frame_.nodes)
      for (const std::size_t value : view_.nodes[node].outputs) made_by[value] = place_of_node_[node];
    for (const std::size_t node : frame_.nodes) {
      std::set<std::size_t> once;
      for (const std::size_t value : view_.nodes[node].inputs) {
        if (!once.insert(value).second) continue;
        const auto inside = made_by.find(value);
        const auto outside = place_of_in_.find(value);
        if (inside != made_by.end())
          lines_.push_back({value, inside->second, place_of_node_[node]});
        else if (outside != place_of_in_.end())
          lines_.push_back({value, outside->second, place_of_node_[node]});
      }
    }
    for (const auto& [value, place] : place_of_out_) lines_.push_back({value, made_by[value], place});
  }

  // Longest path; ports of what comes in at the top, of what leaves at the bottom. Places are in topological order but
  // for ports, and what nothing precedes comes down to just above what reads it.
  void rank() {
    std::vector<std::vector<std::size_t>> readers(places_.size());
    std::vector<std::size_t> before(places_.size(), 0);
    for (const Line& line : lines_) {
      readers[line.from].push_back(line.to);
      ++before[line.to];
    }
    std::vector<std::size_t> sources;
    const bool ports = !frame_.in.empty();
    for (const std::size_t node : frame_.nodes) {
      const std::size_t place = place_of_node_[node];
      if (before[place] == 0) sources.push_back(place);
      places_[place].rank = ports ? 1 : 0;
    }
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (before[i] == 0) ready.push_back(i);
    for (std::size_t i = 0; i < ready.size(); ++i)
      for (const std::size_t reader : readers[ready[i]]) {
        places_[reader].rank = std::max(places_[reader].rank, places_[ready[i]].rank + 1);
        if (--before[reader] == 0) ready.push_back(reader);
      }
    for (const std::size_t source : sources) {
      std::size_t first = none;
      for (const std::size_t reader : readers[source]) first = std::min(first, places_[reader].rank);
      if (first != none && first > 0) places_[source].rank = first - 1;
    }
    ranks_ = 0;
    for (const Place& place : places_) ranks_ = std::max(ranks_, place.rank + 1);
    for (const auto& [value, place] : place_of_out_) places_[place].rank = ranks_ - 1;
    // Only ports may stand in the last rank then.
    bool boxes_there = false;
    for (const std::size_t node : frame_.nodes)
      boxes_there = boxes_there || places_[place_of_node_[node]].rank + 1 == ranks_;
    if (boxes_there && !place_of_out_.empty()) {
      for (const auto& [value, place] : place_of_out_) places_[place].rank = ranks_;
      ++ranks_;
    }
  }

  // Lines of one value share the places they pass.
  void connect() {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> passed;  // value and rank
    std::vector<std::pair<std::size_t, std::size_t>> long_lines;        // rank where it begins; the line
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Line& line = lines_[i];
      const std::size_t begin = places_[line.from].rank, end = places_[line.to].rank;
      if (end - begin > longest_through) {
        long_lines.emplace_back(begin, i);
        continue;
      }
      std::size_t at = line.from;
      for (std::size_t r = begin + 1; r <= end; ++r) {
        std::size_t next = line.to;
        if (r < end) {
          const auto [it, fresh] = passed.try_emplace({line.value, r}, 0);
          if (fresh) it->second = add(2, true, r);
          next = it->second;
          line.through.push_back(next);
        }
        if (std::find(places_[at].down.begin(), places_[at].down.end(), next) == places_[at].down.end()) {
          places_[at].down.push_back(next);
          places_[next].up.push_back(at);
        }
        at = next;
      }
    }
    // The first lane that is free from the line's first rank to its last.
    std::sort(long_lines.begin(), long_lines.end());
    std::vector<std::pair<std::size_t, std::size_t>> lanes;  // free from which rank; of which value
    for (const auto& [begin, i] : long_lines) {
      Line& line = lines_[i];
      std::size_t lane = 0;
      while (lane < lanes.size() && lanes[lane].first > begin && lanes[lane].second != line.value) ++lane;
      if (lane == lanes.size()) lanes.emplace_back(0, 0);
      lanes[lane] = {std::max(lanes[lane].first, places_[line.to].rank), line.value};
      line.lane = static_cast<std::ptrdiff_t>(lane);
    }
    lanes_ = lanes.size();
    by_rank_.resize(ranks_);
    for (std::size_t i = 0; i < places_.size(); ++i) by_rank_[places_[i].rank].push_back(i);
  }

  void sort_rank(std::vector<std::size_t>& rank, const std::vector<std::size_t> Place::*neighbours) {
    for (std::size_t i = 0; i < rank.size(); ++i) {
      Place& place = places_[rank[i]];
      const auto& near = place.*neighbours;
      double sum = 0;
      for (const std::size_t n : near) sum += places_[n].x;
      // Without neighbours it stays where it is among the others.
      place.order = near.empty() ? place.x : sum / static_cast<double>(near.size());
    }
    std::stable_sort(rank.begin(), rank.end(),
                     [&](std::size_t a, std::size_t b) { return places_[a].order < places_[b].order; });
    number(rank);
  }

  // For ordering alone: a place's x is its number, from the middle of the rank.
  void number(const std::vector<std::size_t>& rank) {
    for (std::size_t i = 0; i < rank.size(); ++i)
      places_[rank[i]].x = static_cast<double>(i) - static_cast<double>(rank.size() - 1) / 2;
  }

  [[nodiscard]] std::size_t crossings() const {
    std::size_t count = 0;
    std::vector<std::pair<double, double>> lines;
    for (const auto& rank : by_rank_) {
      lines.clear();
      for (const std::size_t place : rank)
        for (const std::size_t below : places_[place].down) lines.emplace_back(places_[place].x, places_[below].x);
      std::sort(lines.begin(), lines.end());
      // Inversions by insertion: ranks are narrow. A wide one is counted in part; this only chooses between orders.
      constexpr std::size_t most = 400;
      for (std::size_t i = 0; i < std::min(lines.size(), most); ++i)
        for (std::size_t k = i + 1; k < std::min(lines.size(), most); ++k)
          if (lines[i].first < lines[k].first && lines[i].second > lines[k].second) ++count;
    }
    return count;
  }

  void order() {
    for (const auto& rank : by_rank_) number(rank);
    auto best = by_rank_;
    std::size_t fewest = crossings();
    constexpr int sweeps = 12;
    for (int sweep = 0; sweep < sweeps && fewest > 0; ++sweep) {
      for (std::size_t r = 1; r < by_rank_.size(); ++r) sort_rank(by_rank_[r], &Place::up);
      if (sweep % 2 == 1)
        for (std::size_t r = by_rank_.size() - 1; r-- > 0;) sort_rank(by_rank_[r], &Place::down);
      const std::size_t now = crossings();
      if (now >= fewest) continue;
      fewest = now;
      best = by_rank_;
    }
    by_rank_ = std::move(best);
  }

  void columns() {
    for (const auto& rank : by_rank_) {
      std::vector<double> wanted(rank.size(), 0), weight(rank.size(), 1);
      settle(places_, rank, wanted, weight);
    }
    constexpr int sweeps = 16;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (std::size_t i = 0; i < by_rank_.size(); ++i) {
        const auto& rank = by_rank_[down ? i : by_rank_.size() - 1 - i];
        std::vector<double> wanted, weight;
        wanted.reserve(rank.size());
        weight.reserve(rank.size());
        for (const std::size_t place : rank) {
          const Place& p = places_[place];
          // Mostly those it comes from, a little those it goes to: chains stay straight.
          double sum = 0, total = 0;
          for (const auto& [near, share] : {std::pair{&p.up, down ? 1.0 : 0.25}, {&p.down, down ? 0.25 : 1.0}})
            for (const std::size_t n : *near) {
              const bool straight = p.passes && places_[n].passes && !p.port && !places_[n].port;
              const double strong = share * (straight ? 8 : 1);
              sum += strong * places_[n].x;
              total += strong;
            }
          wanted.push_back(total > 0 ? sum / total : p.x);
          weight.push_back(p.passes && !p.port ? 4 : 1);
        }
        settle(places_, rank, wanted, weight);
      }
    }
    straighten();
  }

  // A line that passes several ranks takes one column for all of them, where there is one free beside those it has.
  void straighten() {
    std::vector<std::size_t> at(places_.size(), 0);
    for (const auto& rank : by_rank_)
      for (std::size_t i = 0; i < rank.size(); ++i) at[rank[i]] = i;
    const auto fits = [&](std::size_t place, double x) {
      const auto& rank = by_rank_[places_[place].rank];
      const auto apart = [&](std::size_t other) {
        return (places_[place].width + places_[other].width) / 2 + line_gap - 0.01;
      };
      const std::size_t i = at[place];
      return (i == 0 || x - places_[rank[i - 1]].x >= apart(rank[i - 1])) &&
             (i + 1 == rank.size() || places_[rank[i + 1]].x - x >= apart(rank[i + 1]));
    };
    for (const Line& line : lines_) {
      if (line.through.size() < 2) continue;
      std::vector<double> columns;
      columns.reserve(line.through.size());
      for (const std::size_t place : line.through) columns.push_back(places_[place].x);
      std::sort(columns.begin(), columns.end());
      const double middle = (places_[line.from].x + places_[line.to].x) / 2;
      std::stable_sort(columns.begin(), columns.end(),
                       [&](double a, double b) { return std::abs(a - middle) < std::abs(b - middle); });
      for (const double x : columns) {
        if (!std::all_of(line.through.begin(), line.through.end(), [&](std::size_t place) { return fits(place, x); }))
          continue;
        for (const std::size_t place : line.through) places_[place].x = x;
        break;
      }
    }
  }

  // Lines that go far to the side get more height, so that they do not lie on one another.
  [[nodiscard]] double gap_below(std::size_t rank) const {
    double furthest = 0;
    for (const std::size_t place : by_rank_[rank])
      for (const std::size_t below : places_[place].down)
        furthest = std::max(furthest, std::abs(places_[below].x - places_[place].x));
    constexpr double slope = 0.045, most = 120;
    return std::clamp(furthest * slope, rank_gap, most);
  }

  void write() {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const Place& place : places_) {
      low = std::min(low, place.x - place.width / 2);
      high = std::max(high, place.x + place.width / 2);
    }
    const bool framed = frame_.layer >= 0;
    const double side = framed ? padding : 0, top = framed ? header : 0;
    const bool has_in = !frame_.in.empty(), has_out = !frame_.out.empty();
    // A rank of ports has no height: the line begins at the frame's edge.
    std::vector<double> tops(ranks_ + 1, 0);
    double y = top + (has_in ? gap_below(0) / 2 : framed ? rank_gap / 2 : 0);
    for (std::size_t r = has_in ? 1 : 0; r < ranks_; ++r) {
      tops[r] = y;
      y += Layout::node_height + gap_below(r);
    }
    tops[ranks_] = y;
    const auto top_of = [&](std::size_t r) { return tops[r]; };
    frame_.height = has_out ? tops[ranks_ - 1] - rank_gap / 2 : tops[ranks_] - gap_below(ranks_ - 1) + side;
    frame_.width = high - low + 2 * side + static_cast<double>(lanes_) * lane_gap + (lanes_ > 0 ? lane_gap : 0);
    if (framed) frame_.width = std::max(frame_.width, Layout::closed_width);
    const double shift =
        side - low +
        (framed
             ? std::max(0.0, (frame_.width - (high - low) - 2 * side) / 2 - static_cast<double>(lanes_) * lane_gap / 2)
             : 0);
    for (const std::size_t node : frame_.nodes) {
      const Place& place = places_[place_of_node_[node]];
      boxes_[node].x = place.x - place.width / 2 + shift;
      boxes_[node].y = top_of(place.rank);
    }
    for (Layout::Port& port : frame_.in) port.x = places_[place_of_in_[port.value]].x + shift;
    for (Layout::Port& port : frame_.out) port.x = places_[place_of_out_[port.value]].x + shift;
    std::map<std::size_t, std::size_t> node_at;
    for (const auto& [node, place] : place_of_node_) node_at[place] = node;
    for (const Line& line : lines_) {
      const auto node_or_port = [&](std::size_t place) {
        const auto it = node_at.find(place);
        return it == node_at.end() ? std::ptrdiff_t{-1} : static_cast<std::ptrdiff_t>(it->second);
      };
      Layout::Wire wire{.value = line.value, .from = node_or_port(line.from), .to = node_or_port(line.to)};
      const Place &from = places_[line.from], &to = places_[line.to];
      const double begin = wire.from < 0 ? 0 : top_of(from.rank) + Layout::node_height;
      const double end = wire.to < 0 ? frame_.height : top_of(to.rank);
      wire.points.push_back({from.x + shift, begin});
      if (line.lane >= 0) {
        const double x = high + shift + static_cast<double>(line.lane + 1) * lane_gap;
        wire.points.push_back({x, begin + rank_gap});
        wire.points.push_back({x, end - rank_gap});
      }
      for (const std::size_t through : line.through) {
        const double x = places_[through].x + shift, passes = top_of(places_[through].rank);
        wire.points.push_back({x, passes});
        wire.points.push_back({x, passes + Layout::node_height});
      }
      wire.points.push_back({to.x + shift, end});
      drop_straight(wire.points);
      frame_.wires.push_back(std::move(wire));
    }
  }

  // Of points one above the other only the ends matter.
  static void drop_straight(std::vector<Layout::Point>& points) {
    constexpr double same = 0.5;
    std::vector<Layout::Point> kept;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool middle = i > 0 && i + 1 < points.size() && std::abs(points[i - 1].x - points[i].x) < same &&
                          std::abs(points[i + 1].x - points[i].x) < same;
      if (!middle) kept.push_back(points[i]);
    }
    points = std::move(kept);
  }

  const GraphView& view_;
  std::vector<Layout::Box>& boxes_;
  Layout::Frame& frame_;
  std::vector<Place> places_;
  std::map<std::size_t, std::size_t> place_of_node_, place_of_in_, place_of_out_;
  std::vector<Line> lines_;
  std::vector<std::vector<std::size_t>> by_rank_;
  std::size_t ranks_ = 0, lanes_ = 0;
};

}  // namespace

void lay_out_frame(const GraphView& view, std::vector<GraphLayout::Box>& boxes, GraphLayout::Frame& frame) {
  FrameLayout(view, boxes, frame).run();
}

}  // namespace knapsack
