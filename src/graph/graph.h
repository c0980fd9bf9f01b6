// The IR: one SSA graph for every architecture. Values have names a person recognises and dimensions of any rank; nodes
// are ops of ops.inc (a decoder's, on rows of activations) and of primitives.inc (ONNX's, on tensors).
// Importers build it, passes rewrite it, lower() turns it into a program. The text form (text.h) round-trips.
// Not for execution: there is one executor, in program/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

// Dimensions that are numbers only when the graph runs: the tokens of a step (T) and the rows whose logits are wanted
// (S). Only the first dimension of an activation [rows, cols] is one.
inline constexpr std::int64_t tokens_dim = -1;
inline constexpr std::int64_t selected_dim = -2;

// How an activation's floats are kept as integers: value = scale * (code - zero).
struct Quantization {
  int bits = 8;
  double scale = 1;
  std::int64_t zero = 0;
  bool operator==(const Quantization&) const = default;
};

struct Value {
  std::string name{};
  ValueKind kind = ValueKind::computed;
  DType dtype = DType::F32;
  // Outermost first. A state: [cols], or [ctx, cols] where shapes are static. A constant: its weight's, the last two
  // exchanged where it is seen transposed.
  std::vector<std::int64_t> dims{};
  std::shared_ptr<const Weight> weight{};  // constants
  bool transposed = false;                 // constants
  std::optional<DType> as{};               // constants: the type it is read as, where that is said; dtype is stored
  // Constants: the target keeps each row (of the weight as it is stored) padded to whole lines of so many bytes; 0:
  // rows follow each other. What runs here has them as they are.
  std::int64_t line = 0;
  bool channel_first = false;           // states: a channel's positions side by side, [cols, ctx]
  int state = -1;                       // state number, for states and what kv_write returns
  bool dynamic = false;                 // a dimension depends on data (NonZero); dims holds the most it can be
  std::optional<Quantization> quant{};  // activations that are kept as integers

  // Of its elements when they are computed with.
  [[nodiscard]] DType type() const { return as.value_or(dtype); }
  [[nodiscard]] std::int64_t cols() const { return dims.empty() ? 1 : dims.back(); }
  // The first dimension of an activation [rows, cols]: a number, tokens_dim or selected_dim; 0: it is no such one.
  [[nodiscard]] std::int64_t rows() const { return dims.size() == 2 ? dims[0] : 0; }
  [[nodiscard]] bool symbolic() const { return !dims.empty() && dims[0] < 0; }
  // Elements of a value without symbolic dimensions.
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (const auto d : dims) n *= d;
    return n;
  }
  // Of a constant as the target keeps it.
  [[nodiscard]] std::int64_t kept_bytes() const {
    const std::int64_t row = weight->row_size();
    return weight->elements() / weight->cols() * (line > 0 ? (row + line - 1) / line * line : row);
  }
};

// What a primitive node is for, where that decides what can be done about it.
enum class Purpose : std::uint8_t { plain, rope_table, mask, kv_append, repeat_heads, embedding, latent_up };
std::string_view purpose_name(Purpose purpose);

struct Node {
  Op op{};
  std::string name;
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // Of nodes that a decomposition made: the node of ours they are a part of, by name, and its op.
  std::string origin{};
  Op origin_op{};
  Purpose purpose = Purpose::plain;
  std::string unit{};  // where it runs, once the graph is partitioned

  // The layer the node's name, or its origin's, says; -1: of none.
  [[nodiscard]] std::int64_t layer() const;
};

// The forms a graph goes through (stages.inc), each with rules of its own that verify() holds it to.
enum class Stage : std::uint8_t {
#define KNAP_STAGE(id, text, what) id,
#include "graph/stages.inc"
#undef KNAP_STAGE
};
std::string_view stage_name(Stage stage);
std::string_view stage_text(Stage stage);  // one line: what is so about it
std::optional<Stage> stage_from_name(std::string_view name);
std::vector<std::string_view> stage_names();

// How a constant sees its weight.
struct ConstantView {
  bool transposed = false;  // its last two dimensions exchanged
  std::optional<DType> as{};
  std::string name{};  // empty: the weight's, with ".T" where it is transposed
  std::int64_t line = 0;
};

class Graph {
 public:
  // Builders. Names are unique; a node's first output takes the node's name, the next ones NAME.1, NAME.2. The shape
  // of the output is inferred (shape.cc) and a node that does not fit is our own mistake (CHECK, with the rule it
  // breaks): importers check configs and tensors first. A constant takes its weight's name unless its view has one; the
  // same weight, seen as before (a tied head), gives the same value, seen otherwise one with more behind its name.
  ValueId input(std::string name, DType dtype, std::vector<std::int64_t> dims);
  ValueId constant(std::shared_ptr<const Weight> weight, ConstantView view = {});
  ValueId state(std::string name, std::int64_t cols, std::optional<std::int64_t> ctx = std::nullopt,
                bool channel_first = false);
  ValueId node(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {});
  // For ops with several outputs: the ids of all.
  std::vector<ValueId> nodes(Op op, std::string name, std::vector<ValueId> inputs, Attrs attrs = {});
  // With a name for each output; the node takes the first.
  std::vector<ValueId> nodes(Op op, std::vector<std::string> names, std::vector<ValueId> inputs, Attrs attrs);
  void set_output(ValueId value) { outputs_ = {value}; }
  void add_output(ValueId value) { outputs_.push_back(value); }
  // The node made last; for what builders do not say.
  Node& last() { return nodes_.back(); }
  void set_quantization(ValueId value, Quantization quant);

  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const std::vector<Node>& list() const { return nodes_; }
  [[nodiscard]] const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  // The first output, a decoder's only one: the logits; -1: none was set.
  [[nodiscard]] ValueId output() const { return outputs_.empty() ? -1 : outputs_.front(); }
  [[nodiscard]] const std::vector<ValueId>& outputs() const { return outputs_; }
  [[nodiscard]] ValueId find(std::string_view name) const;  // -1 when absent
  // The tokens of a step where shapes are static, else tokens_dim. Nothing: it is no decoder (that has states or
  // embeds, and takes the token ids).
  [[nodiscard]] std::optional<std::int64_t> tokens() const;

 private:
  ValueId add(Value value);

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::map<std::string, ValueId, std::less<>> ids_;
  int states_ = 0;
  std::vector<ValueId> outputs_;
};

// Every rule of the IR: SSA order, arity, shapes, attributes known, states threaded, names unique. Names the node.
Result<void> verify(const Graph& graph);
// And those of the stage it is said to be in.
Result<void> verify(const Graph& graph, Stage stage);

// What an integer attribute stands for, where it is a number of a list: to=F16, act=silu. Empty: it is a number.
std::string_view attribute_word(Attr key, std::int64_t value);

// `%layers.0.attn.q_proj [T, 64] = linear %a, @w {..}`: one line a node; constants as name, type and shape.
std::string to_text(const Graph& graph);
// For reading by people: those nodes alone that `keep` says, and the inputs, constants and states they read. A value
// that a node left out makes stands as a comment where it is first read; graph_from_text refuses that.
std::string to_text(const Graph& graph, const std::function<bool(const Node&)>& keep);
// Reads to_text's form. Constants come back without data (slabs empty).
Result<Graph> graph_from_text(std::string_view text);

struct LowerOptions {
  std::int64_t max_tokens = 128;  // rows of a step: the prefill chunk, or 1 for decode; of a static graph: its own
  std::int64_t max_selected = 1;  // rows of logits
  bool keep_values = false;       // give every value its own memory (taps work either way)
};
// Plans the arena (lifetimes, greedy by size) and flattens. The graph must verify. Unsupported: values whose dimensions
// depend on data.
Result<std::shared_ptr<const Program>> lower(const Graph& graph, const LowerOptions& options);

}  // namespace knapsack
