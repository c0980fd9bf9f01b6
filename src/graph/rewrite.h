// How a pass makes a new graph of an old one: node by node in order, each copied, left out or replaced. Values of the
// old graph that are asked for stand for what the new one has in their place; constants come along as they are used.
// Not for changing a graph in place: passes never do.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace knapsack {

class Rewriter {
 public:
  // Inputs and states are declared at once, as they are; ctx > 0: states of that static context; tokens > 0: the first
  // dimension T becomes that number (and S becomes 1). channel_first: the states, by their value, that become so.
  explicit Rewriter(const Graph& from, std::int64_t tokens = 0, std::int64_t ctx = 0,
                    const std::set<ValueId>& channel_first = {});

  [[nodiscard]] const Graph& from() const { return from_; }
  Graph& to() { return to_; }
  // What stands in the new graph for a value of the old one; a constant is declared when it is first asked for.
  ValueId of(ValueId old);
  std::vector<ValueId> of(const std::vector<ValueId>& old);
  [[nodiscard]] bool has(ValueId old) const { return map_[static_cast<std::size_t>(old)] >= 0; }
  // From here on `made` stands for `old`.
  void replace(ValueId old, ValueId made) { map_[static_cast<std::size_t>(old)] = made; }
  // The node again, on what stands for its inputs.
  void copy(const Node& node);
  // The same with other attributes or inputs (of the new graph).
  void copy(const Node& node, std::vector<ValueId> inputs, Attrs attrs);
  // A new node in the place of `old`, which gives its name, where it came from and its unit.
  ValueId node(const Node& old, Op op, std::vector<ValueId> inputs, Attrs attrs);
  // A name that the new graph does not have: `name`, or with a number behind it.
  [[nodiscard]] std::string unique(std::string name) const;
  // A name that neither graph has: of what stands beside nodes still to come.
  [[nodiscard]] std::string fresh(std::string name) const;
  // The outputs of the old graph, and the new one.
  Graph finish();

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
};

// For each value: the node that makes it and those that read it, by number; -1 and empty: none.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<int> maker;
  std::vector<std::vector<int>> readers;
  // Read once, and no output of the graph.
  [[nodiscard]] bool only(ValueId value) const {
    return readers[static_cast<std::size_t>(value)].size() == 1 && !output[static_cast<std::size_t>(value)];
  }
  std::vector<bool> output;
};

// All but these.
Attrs without(const Attrs& attrs, std::initializer_list<Attr> gone);

// Where `made` came from, as `old` did.
void take_provenance(Node& made, const Node& old);

}  // namespace knapsack
