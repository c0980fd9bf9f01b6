#include "passes/recognize/apart.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "graph/rewrite.h"

namespace knapsack::recognition {
namespace {

using Dims = std::vector<std::int64_t>;

// [1, tokens, heads, columns] of a Reshape of [1, tokens, heads * columns] to [tokens * heads, columns], behind ones
// perhaps; empty: it is none.
Dims apart(const Graph& graph, const Node& node, std::int64_t tokens) {
  if (node.op != Op::Reshape) return {};
  const Dims& from = graph.value(node.inputs[0]).dims;
  const Dims& to = graph.value(node.outputs[0]).dims;
  const bool sizes = from.size() == 3 && from[0] == 1 && from[1] == tokens && to.size() >= 2;
  if (!sizes || !std::all_of(to.begin(), to.end() - 2, [](std::int64_t d) { return d == 1; })) return {};
  const std::int64_t rows = to[to.size() - 2];
  if (rows == tokens || rows % tokens != 0) return {};
  return {1, tokens, rows / tokens, to.back()};
}

constexpr std::array elementwise{Op::Add,  Op::Sub,        Op::Mul,     Op::Div,  Op::Pow, Op::Max,  Op::Min,
                                 Op::Sqrt, Op::Reciprocal, Op::Sigmoid, Op::Tanh, Op::Neg, Op::Cast, Op::Identity};

bool by_element(Op op) { return std::find(elementwise.begin(), elementwise.end(), op) != elementwise.end(); }

// What follows from rows that lie apart, and still does not mix them.
class Region {
 public:
  Region(const Graph& graph, const Uses& uses, std::size_t rank) : graph_(graph), uses_(uses), rank_(rank) {}

  // Whether all that reads the value works on rows, up to a Reshape.
  bool take(ValueId id) {
    if (!seen_.insert(id).second) return true;
    if (uses_.output[static_cast<std::size_t>(id)]) return false;
    const auto& readers = uses_.readers[static_cast<std::size_t>(id)];
    return std::all_of(readers.begin(), readers.end(), [&](int reader) {
      const Node& node = graph_.list()[static_cast<std::size_t>(reader)];
      if (node.op == Op::Reshape) return true;
      const bool rows = node.op == Op::ReduceMean || node.op == Op::ReduceSum ? along_columns(node)
                                                                              : by_element(node.op) && fits(node);
      return rows && node.outputs.size() == 1 && take(node.outputs[0]);
    });
  }
  // Also of the others that a node reads: they are of the region, or vectors and numbers.
  [[nodiscard]] bool closed() const {
    return std::all_of(seen_.begin(), seen_.end(), [&](ValueId id) {
      const auto& readers = uses_.readers[static_cast<std::size_t>(id)];
      return std::all_of(readers.begin(), readers.end(), [&](int reader) {
        const Node& node = graph_.list()[static_cast<std::size_t>(reader)];
        if (node.op == Op::Reshape) return true;
        return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
          return seen_.contains(input) || graph_.value(input).dims.size() <= 1;
        });
      });
    });
  }
  [[nodiscard]] const std::set<ValueId>& values() const { return seen_; }

 private:
  [[nodiscard]] bool along_columns(const Node& node) const {
    const auto axes = node.attrs.list(Attr::axes);
    return axes.size() == 1 && axes[0] + 1 == static_cast<std::int64_t>(rank_) && node.attrs.i(Attr::keepdims) != 0;
  }
  [[nodiscard]] bool fits(const Node& node) const { return graph_.value(node.outputs[0]).dims.size() == rank_; }

  const Graph& graph_;
  const Uses& uses_;
  std::size_t rank_;
  std::set<ValueId> seen_;
};

}  // namespace

Graph with_heads_apart(const Graph& graph, std::int64_t tokens) {
  const Uses uses(graph);
  std::map<ValueId, Dims> starts;
  std::set<ValueId> inside;
  for (const Node& node : graph.list()) {
    Dims dims = apart(graph, node, tokens);
    if (dims.empty()) continue;
    Region region(graph, uses, graph.value(node.outputs[0]).dims.size());
    if (!region.take(node.outputs[0]) || !region.closed()) continue;
    starts[node.outputs[0]] = std::move(dims);
    inside.insert(region.values().begin(), region.values().end());
  }
  if (starts.empty()) return graph;
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    const auto start = starts.find(node.outputs[0]);
    if (start != starts.end()) {
      to.copy(node, to.of(node.inputs), Attrs().set(Attr::shape, start->second));
    } else if (inside.contains(node.outputs[0]) && (node.op == Op::ReduceMean || node.op == Op::ReduceSum)) {
      to.copy(node, to.of(node.inputs), without(node.attrs, {Attr::axes}).set(Attr::axes, Dims{3}));
    } else {
      to.copy(node, to.of(node.inputs), node.attrs);
    }
  }
  return to.finish();
}

}  // namespace knapsack::recognition
