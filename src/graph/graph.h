// The IR: one SSA graph for every architecture. Values have names a person recognises; nodes are ops of ops.inc.
// Importers build it, passes rewrite it, lower() turns it into a program. The text form (text.h) round-trips.
// Not for execution: there is one executor, in program/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"
#include "program/program.h"
#include "tensor/weight.h"

namespace knapsack {

enum class ValueKind : std::uint8_t { input, constant, state, computed };

using ValueId = int;

struct Value {
  std::string name{};
  ValueKind kind = ValueKind::computed;
  Rows rows = Rows::tokens;  // activations: symbolic first dimension, T or S
  DType dtype = DType::F32;
  std::int64_t cols = 0;                   // activations and states
  std::shared_ptr<const Weight> weight{};  // constants
  int state = -1;                          // state number, for states and what kv_write returns
};

struct Node {
  Op op{};
  std::string name;
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

class Graph {
 public:
  // Builders. Names are unique; a node's first output takes the node's name, the next ones NAME.1, NAME.2. The shape
  // of the output is inferred (shape.cc) and a node that does not fit is our own mistake (CHECK, with the rule it
  // breaks): importers check configs and tensors first. A constant takes its weight's name;
  // the same weight again (a tied head) gives the same value.
  ValueId input(std::string name, DType dtype, std::int64_t cols);
  ValueId constant(std::shared_ptr<const Weight> weight);
  ValueId state(std::string name, std::int64_t cols);
  ValueId node(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {});
  // For ops with several outputs: the ids of all.
  std::vector<ValueId> nodes(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {});
  void set_output(ValueId value) { output_ = value; }

  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<Node>& list() const { return nodes_; }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] ValueId output() const { return output_; }
  [[nodiscard]] ValueId find(std::string_view name) const;  // -1 when absent

 private:
  ValueId add(Value value);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::map<std::string, ValueId, std::less<>> ids_;
  int states_ = 0;
  ValueId output_ = -1;
};

// Every rule of the IR: SSA order, arity, shapes, attributes known, states threaded, names unique. Names the node.
Result<void> verify(const Graph& graph);

// `%layers.0.attn.q_proj [T, 64] = linear %a, @w {..}`: one line a node; constants as name, type and shape.
std::string to_text(const Graph& graph);
// Reads to_text's form. Constants come back without data (slabs empty).
Result<Graph> graph_from_text(std::string_view text);

struct LowerOptions {
  std::int64_t max_tokens = 128;  // rows of a step: the prefill chunk, or 1 for decode
  std::int64_t max_selected = 1;  // rows of logits
  bool keep_values = false;       // give every value its own memory (taps work either way)
};
// Plans the arena (lifetimes, greedy by size) and flattens. The graph must verify.
Result<std::shared_ptr<const Program>> lower(const Graph& graph, const LowerOptions& options);

}  // namespace knapsack
