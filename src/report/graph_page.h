// A graph for people to look at: one neutral view of it, and its writers (Graphviz, SVG, one-file HTML, JSON).
// Not for our IR, which pipeline/graph_view.h turns into this; not for where boxes stand (graph_layout.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace knapsack {

struct GraphView {
  enum class Kind : std::uint8_t { input, constant, state, computed };
  struct Value {
    std::string name{};
    Kind kind = Kind::computed;
    std::vector<std::string> shape{};     // outermost first; "T" and the like where it is not fixed
    std::string dtype{};                  // "F32", "Q4_K"; empty: decided later, as a state's is
    std::int64_t block = 1;               // elements of one block of the format
    std::int64_t block_bytes = 0;         // and its bytes; 0: unknown
    std::optional<std::int64_t> bytes{};  // of one `per`
    std::string per{};                    // "T": for each of these; empty: of all of it
    std::int64_t layer = -1;              // -1: of none
    std::string note{};                   // what else is to be known of it: how it is quantized, read, laid out
  };
  using Attribute = std::pair<std::string, std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>>;
  // A box. What has no op (an input, a state, a value from a part that is left out) is a box as well, so that every
  // value but a constant has one that makes it; `source` says so.
  struct Node {
    std::string name{};
    std::string op{};
    std::size_t cls = 0;  // of `classes`
    std::int64_t layer = -1;
    std::string unit{};    // of the device; empty: not placed
    std::string why{};     // it is there; empty: nothing is to be said
    std::string origin{};  // the node it is a part of, where something was taken apart; empty: none
    std::string purpose{};
    bool source = false;
    bool left_out = false;  // a source: what a part that is not shown makes
    std::vector<Attribute> attributes{};
    std::vector<std::size_t> inputs{};   // values, in the op's order
    std::vector<std::size_t> outputs{};  // values
  };
  std::string title{};
  std::vector<std::string> facts{};    // lines below the title, with what is left out
  std::vector<std::string> classes{};  // in the order of the legend
  std::vector<Value> values{};
  std::vector<Node> nodes{};  // each behind what it reads
  std::vector<std::size_t> outputs{};
};

// "[T, 1536]"; "[]" of a scalar.
std::string shape_text(const GraphView::Value& value);
// "Q4_K, 4.5 bits (blocks of 256 in 144 bytes)".
std::string format_text(const GraphView::Value& value);
// "1.5 MiB", "6.00 KiB per T"; empty: unknown.
std::string bytes_text(const GraphView::Value& value);
// Bytes of the constants a node reads.
std::int64_t weight_bytes(const GraphView& view, const GraphView::Node& node);

std::string graph_dot(const GraphView& view);
std::string graph_svg(const GraphView& view);
// One file that needs no network: search, layers that open and close, what a node reads and makes.
std::string graph_html(const GraphView& view);
// {title, facts, nodes: [...], values: [...], outputs}; nodes without sources.
json::object graph_json(const GraphView& view);

// What the writers share. The fill of a class's boxes, by its place in the legend (then from the first again); dark
// text is readable on each.
constexpr std::size_t class_colours = 12;
const char* class_colour(std::size_t cls);
// Names for a picture: without "layers.N." inside that layer, on one line, at most `columns` wide (cut in the middle).
std::string short_name(const std::string& name, std::int64_t layer, std::size_t columns);

}  // namespace knapsack
