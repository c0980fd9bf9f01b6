// verify(): what lower() and every pass may rely on. Builders cannot make most of these mistakes; a rewriting pass
// and a hand-written text can.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/shape.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

Error at_node(const Node& node, std::string_view problem) {
  return bad_input("graph: node '{}' ({}): {}", node.name, op_info(node.op).text, problem);
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values().size(), false) {}

  Result<void> run() {
    TRY_VOID(declarations());
    for (const Node& node : graph_.list()) TRY_VOID(check(node));
    for (std::size_t id = 0; id < defined_.size(); ++id)
      if (!defined_[id]) return bad_input("graph: value '{}' is made by no node", graph_.values()[id].name);
    return outputs();
  }

 private:
  Result<void> declarations() {
    std::set<std::string_view> names;
    int inputs = 0;
    for (std::size_t id = 0; id < graph_.values().size(); ++id) {
      const Value& v = graph_.values()[id];
      if (v.name.empty()) return bad_input("graph: value number {} has no name", id);
      if (!names.insert(v.name).second) return bad_input("graph: two values are named '{}'", v.name);
      if (v.kind == ValueKind::computed) continue;
      defined_[id] = true;
      if (const auto fine = check_dims(v.dims); v.kind != ValueKind::constant && !fine)
        return bad_input("graph: '{}' has {}", v.name, fine.error().message);
      if (v.kind == ValueKind::input) {
        ++inputs;
        if (v.rows() == selected_dim) return bad_input("graph: input '{}' has rows of logits", v.name);
        if (format(v.dtype).block != 1)
          return bad_input("graph: input '{}' cannot be of {}", v.name, knapsack::name(v.dtype));
      } else if (v.kind == ValueKind::constant) {
        if (v.weight == nullptr) return bad_input("graph: constant '{}' has no weight", v.name);
        TRY_VOID(check_constant(*v.weight));
        if (v.dtype != v.weight->dtype || v.dims != seen_dims(*v.weight, v.transposed))
          return bad_input("graph: constant '{}' is not described as its weight is", v.name);
      } else {
        if (v.dims.empty() || v.dims.size() > 2 || v.symbolic())
          return bad_input("graph: state '{}' must be [columns] or [context, columns]", v.name);
        if (v.state != static_cast<int>(newest_.size()))
          return bad_input("graph: state '{}' has number {}, expected {}", v.name, v.state, newest_.size());
        newest_.push_back(static_cast<ValueId>(id));
      }
    }
    if (inputs == 0) return bad_input("graph: there is no input");
    return {};
  }

  Result<void> check(const Node& node) {
    std::vector<const Value*> inputs;
    for (const ValueId id : node.inputs) {
      if (!known(id)) return at_node(node, "an input is no value of this graph");
      const Value& v = graph_.value(id);
      if (!defined_[static_cast<std::size_t>(id)]) return at_node(node, "'" + v.name + "' is used before it is made");
      if (v.state >= 0 && newest_[static_cast<std::size_t>(v.state)] != id)
        return at_node(node, "'" + v.name + "' is an older version of a state: it is written in place");
      inputs.push_back(&v);
    }
    auto shapes = infer(node.op, node.attrs, inputs);
    if (!shapes) return at_node(node, shapes.error().message);
    if (shapes->size() != node.outputs.size())
      return at_node(node, fmt::format("makes {} values, has {} names", shapes->size(), node.outputs.size()));
    for (std::size_t k = 0; k < shapes->size(); ++k) TRY_VOID(check_output(node, node.outputs[k], (*shapes)[k]));
    TRY_VOID(check_indices(node));
    if (graph_.value(node.outputs[0]).name != node.name)
      return at_node(node, "its first output is named '" + graph_.value(node.outputs[0]).name + "'");
    return {};
  }

  Result<void> check_output(const Node& node, ValueId id, const Value& shape) {
    if (!known(id) || graph_.value(id).kind != ValueKind::computed)
      return at_node(node, "an output is not a computed value of this graph");
    const Value& v = graph_.value(id);
    if (defined_[static_cast<std::size_t>(id)]) return at_node(node, "'" + v.name + "' is made twice");
    if (v.dims != shape.dims || v.dtype != shape.dtype || v.state != shape.state || v.dynamic != shape.dynamic)
      return at_node(node, fmt::format("'{}' is described as {} of {}, the op makes {} of {}", v.name,
                                       dims_text(v.dims), name(v.dtype), dims_text(shape.dims), name(shape.dtype)));
    defined_[static_cast<std::size_t>(id)] = true;
    if (v.state >= 0) newest_[static_cast<std::size_t>(v.state)] = id;
    return {};
  }

  // What is used as an index must be one: kernels do not look again.
  Result<void> check_indices(const Node& node) {
    if (node.op == Op::router) choices_[node.outputs[0]] = node.attrs.i(Attr::experts);
    if (node.op == Op::moe) {
      const auto choice = choices_.find(node.inputs[1]);
      const std::int64_t experts = graph_.value(node.inputs[3]).weight->shape[0];
      if (choice == choices_.end()) return at_node(node, "ids must come from a router");
      if (choice->second != experts)
        return at_node(node, fmt::format("its router chooses among {} experts, it has {}", choice->second, experts));
    }
    if (node.op == Op::embed) {
      if (graph_.value(node.inputs[0]).kind != ValueKind::input) return at_node(node, "ids must be the graph's input");
      const Weight& table = *graph_.value(node.inputs[1]).weight;
      // Ids are checked against the width of the logits before they get here.
      if (known(graph_.output()) && table.shape[0] < graph_.value(graph_.output()).cols())
        return at_node(node, fmt::format("the table has {} rows for {} logits", table.shape[0],
                                         graph_.value(graph_.output()).cols()));
    }
    if (node.op == Op::gather_cols) {
      const Weight& index = *graph_.value(node.inputs[1]).weight;
      const std::int64_t cols = graph_.value(node.inputs[0]).cols();
      for (std::int64_t i = 0; i < index.cols() && !index.slabs.empty(); ++i) {
        const auto col = load_unaligned<std::int32_t>(index.slab(0) + i * 4);
        if (col < 0 || col >= cols)
          return at_node(node, fmt::format("index {} of '{}' is {}, there are {} columns", i, index.name, col, cols));
      }
    }
    return {};
  }

  // Who runs a decoder relies on what goes in and comes out.
  [[nodiscard]] Result<void> decoder() const {
    int inputs = 0;
    for (const Value& v : graph_.values())
      if (v.kind == ValueKind::input && (++inputs > 1 || v.dtype != DType::I32 || v.dims.size() != 2 || v.cols() != 1))
        return bad_input("graph: input '{}': a decoder's one input is the token ids, I32 [T, 1]", v.name);
    if (graph_.outputs().size() > 1)
      return bad_input("graph: a decoder has one output, this one {}", graph_.outputs().size());
    const Value& v = graph_.value(graph_.output());
    if (v.dtype != DType::F32 || v.dims.size() != 2 || v.rows() == tokens_dim)
      return bad_input("graph: output '{}' must be F32 logits of the selected rows", v.name);
    return {};
  }

  [[nodiscard]] Result<void> outputs() const {
    if (graph_.outputs().empty()) return bad_input("graph: there is no output");
    for (const ValueId id : graph_.outputs()) {
      if (!known(id)) return bad_input("graph: an output is no value of this graph");
      const Value& v = graph_.value(id);
      if (v.kind != ValueKind::computed || v.state >= 0)
        return bad_input("graph: output '{}' is made by no node", v.name);
    }
    const bool has_states = !newest_.empty();
    const bool embeds =
        std::any_of(graph_.list().begin(), graph_.list().end(), [](const Node& node) { return node.op == Op::embed; });
    return has_states || embeds ? decoder() : Result<void>{};
  }

  [[nodiscard]] bool known(ValueId id) const { return id >= 0 && id < static_cast<ValueId>(graph_.values().size()); }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::map<ValueId, std::int64_t> choices_;  // by a router's ids: among how many experts
  std::vector<ValueId> newest_;              // by state: the version that is in memory at this point
};

}  // namespace

Result<void> verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace knapsack
