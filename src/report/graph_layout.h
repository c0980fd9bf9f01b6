// Where the boxes and lines of a graph stand: downwards by rank, each layer in a frame of its own that can be closed.
// A frame is laid out once, in its own coordinates; place() stacks frames for any choice of open ones, and the page
// does the same. Not for drawing: graph_svg.cc and graph_page.html do that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/graph_page.h"

namespace knapsack {

struct GraphLayout {
  static constexpr double node_height = 40, closed_width = 250, closed_height = 66;
  static constexpr double row_gap = 72, frame_gap = 48, lane_gap = 12, edge = 24;  // of place()
  static constexpr double column = 7.3;  // of a monospaced letter of 12 pixels, rather too much
  struct Point {
    double x = 0, y = 0;
  };
  struct Box {  // of the node of the same number
    std::size_t frame = 0;
    double x = 0, y = 0, width = 0;  // in its frame; x, y: left, top
    std::string label{}, detail{};
  };
  // A value that comes into a frame, at its top, or leaves it, at its bottom.
  struct Port {
    std::size_t value = 0;
    double x = 0;
  };
  // A line within a frame. from, to: a node, or -1: a port.
  struct Wire {
    std::size_t value = 0;
    std::ptrdiff_t from = -1, to = -1;
    std::vector<Point> points{};
  };
  struct Frame {
    std::int64_t layer = -1;  // -1: no frame is drawn, and it is always open
    std::size_t row = 0;
    std::vector<std::size_t> nodes{};
    std::vector<Port> in{}, out{};
    std::vector<Wire> wires{};
    double width = 0, height = 0;  // open
  };
  // A line from the bottom of a frame to the top of another. lane: -1 where the rows are neighbours; else the number
  // of the vertical line, to the right of all frames, that it goes along with others of its value. trunk: it is the one
  // that goes furthest there, and others need only be drawn from where they leave it, their last three points.
  struct Link {
    std::size_t value = 0;
    std::size_t from = 0, from_port = 0, to = 0, to_port = 0;
    std::ptrdiff_t lane = -1;
    bool trunk = true;
  };
  std::vector<Box> boxes{};
  std::vector<Frame> frames{};
  std::vector<Link> links{};
  std::size_t rows = 0;
  std::size_t lanes = 0;
};

GraphLayout lay_out(const GraphView& view);

// All frames open: the left top corner of each, and the whole picture's size. Coordinates begin at 0.
struct GraphPlaces {
  std::vector<GraphLayout::Point> frames{};
  std::vector<std::vector<GraphLayout::Point>> links{};  // the corners of each
  double width = 0, height = 0;
};
GraphPlaces place(const GraphLayout& layout);

}  // namespace knapsack
