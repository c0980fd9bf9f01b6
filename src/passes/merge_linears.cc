// Products of one input with several matrices of one storage format become one product, whose columns are split: Q, K
// and V; gate and up. Those of a gate and its up stay a pair of their own, for fuse_gates. The parts keep their names.
#include <map>
#include <set>

#include "graph/join_rows.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

// "layers.0.attn.q", "layers.0.attn.k" -> "layers.0.attn.q+k"
std::string joint_name(const std::vector<const Node*>& nodes) {
  const std::string& first = nodes.front()->name;
  const std::string prefix = first.substr(0, first.rfind('.') + 1);
  std::string name = first;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const std::string& each = nodes[i]->name;
    name += "+" + (each.starts_with(prefix) ? each.substr(prefix.size()) : each);
  }
  return name;
}

using Groups = std::map<const Node*, std::vector<const Node*>>;  // by the first of them

Groups groups_of(const Graph& graph) {
  const Uses uses(graph);
  // Numbers of the gated_act that a linear is the gate or the up of; -1: of none.
  const auto gated = [&](const Node& node) {
    for (const int reader : uses.readers[static_cast<std::size_t>(node.outputs[0])])
      if (graph.list()[static_cast<std::size_t>(reader)].op == Op::gated_act) return reader;
    return -1;
  };
  using Key = std::tuple<ValueId, int, DType, bool>;
  std::map<Key, std::vector<const Node*>> by_key;
  for (const Node& node : graph.list()) {
    if (node.op != Op::linear || graph.value(node.outputs[0]).symbolic()) continue;
    const bool biased = node.inputs.size() > 2;
    by_key[{node.inputs[0], gated(node), graph.value(node.inputs[1]).dtype, biased}].push_back(&node);
  }
  Groups groups;
  for (auto& [key, nodes] : by_key) {
    // Gate first, as fused ops have them.
    if (const int act = std::get<1>(key);
        act >= 0 && nodes.size() == 2 && graph.list()[static_cast<std::size_t>(act)].inputs[0] == nodes[1]->outputs[0])
      std::swap(nodes[0], nodes[1]);
    if (nodes.size() < 2) continue;
    // A weight twice would be a name twice.
    std::set<ValueId> weights;
    for (const Node* node : nodes) weights.insert(node->inputs[1]);
    if (weights.size() == nodes.size()) groups.emplace(nodes.front(), nodes);
  }
  return groups;
}

ValueId joined(Rewriter& to, const std::vector<const Node*>& nodes, std::size_t input, const std::string& name,
               bool data) {
  std::vector<const Weight*> parts;
  parts.reserve(nodes.size());
  for (const Node* node : nodes) parts.push_back(to.from().value(node->inputs[input]).weight.get());
  return to.to().constant(join_rows(name, parts, data));
}

void merge(Rewriter& to, const std::vector<const Node*>& nodes, bool data) {
  const std::string name = to.unique(joint_name(nodes));
  std::vector<ValueId> inputs{to.of(nodes.front()->inputs[0]), joined(to, nodes, 1, name + ".weight", data)};
  if (nodes.front()->inputs.size() > 2) inputs.push_back(joined(to, nodes, 2, name + ".bias", data));
  const ValueId product = to.to().node(Op::linear, name, std::move(inputs));
  take_provenance(to.to().last(), *nodes.front());
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const Node* node : nodes) {
    sizes.push_back(to.from().value(node->outputs[0]).cols());
    names.push_back(node->name);
  }
  const auto parts = to.to().nodes(Op::Split, std::move(names), {product},
                                   Attrs().set(Attr::axis, 1).set(Attr::splits, std::move(sizes)));
  take_provenance(to.to().last(), *nodes.front());
  for (std::size_t i = 0; i < nodes.size(); ++i) to.replace(nodes[i]->outputs[0], parts[i]);
}

}  // namespace

Result<Graph> pass_merge_linears(const Graph& graph, const PassContext& context) {
  const Groups groups = groups_of(graph);
  std::map<const Node*, const std::vector<const Node*>*> member;
  for (const auto& [first, nodes] : groups)
    for (const Node* node : nodes) member[node] = &nodes;
  std::set<const std::vector<const Node*>*> done;
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    const auto found = member.find(&node);
    if (found == member.end()) {
      to.copy(node);
    } else if (done.insert(found->second).second) {  // where the first of them stood
      merge(to, *found->second, context.data);
    }
  }
  return to.finish();
}

}  // namespace knapsack
