// A graph of static shapes as an ONNX model: what the rows of onnx_rows.inc write with. Weights are named here and
// written later (onnx_constants.h), so that several models can share them.
// Not for files, nor for which models there are: onnx.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "export/onnx_constants.h"
#include "files/onnx.h"
#include "graph/graph.h"

namespace knapsack {

struct OnnxForm {
  std::int64_t opset = 17;
  DType floats = DType::F32;  // of activations, weights of other storage formats, and the KV cache
};

// A model whose constants are not among its initializers yet.
struct OnnxDraft {
  OnnxModel model;
  std::vector<OnnxConstant> constants;  // in the order they are read
};

// A decoder of primitives and of the ops that onnx_rows.inc has (decompose, KvForm::indexed): token ids become
// input_ids and positions position_ids, both I64 [1, tokens]; states inputs past_key_values.L.key, .value or .latent
// and outputs present.L..., [1, heads, ctx, columns of a head]; what comes out is named logits, [1, 1, vocabulary].
// Any other graph keeps its inputs and outputs. What passes fused is written as what it is made of. An AveragePool with
// dilations needs opset 21.
OnnxDraft draft_onnx(const Graph& graph, const OnnxForm& form);

OnnxType onnx_type(DType type);  // of a plain type

class OnnxBuilder {
 public:
  using Dims = std::vector<std::int64_t>;
  using Attributes = std::vector<OnnxAttribute>;
  using Names = std::vector<std::string>;

  OnnxBuilder(const Graph& graph, const OnnxForm& form);
  OnnxDraft run();

  [[nodiscard]] const Value& value(ValueId id) const { return graph_.value(id); }
  [[nodiscard]] std::int64_t opset() const { return form_.opset; }
  [[nodiscard]] OnnxType floats() const { return onnx_type(form_.floats); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] const Node* maker(ValueId id) const { return makers_[static_cast<std::size_t>(id)]; }

  // The name under which a value is read, of the shape that the graph gives it, or of another of as many elements.
  std::string in(ValueId id) { return reshaped(id, value(id).dims); }
  std::string reshaped(ValueId id, const Dims& dims);
  Names ins(const Node& node);
  [[nodiscard]] OnnxType type(ValueId id) const;  // as it is in the model
  // What a value is behind Reshapes, and behind Casts of our floats to F32: for ops of a decoder, which compute in F32
  // here and in our floats there.
  [[nodiscard]] ValueId source(ValueId id) const;

  static std::string position_ids() { return "position_ids"; }

  // Constants that the graph does not have.
  std::string integers(Dims values);  // I64, one dimension
  std::string integer(std::int64_t value);
  std::string number(OnnxType type, double value);
  std::string constant(const OnnxConstant& constant);
  [[nodiscard]] bool has_constant(const std::string& name) const { return constants_.contains(name); }
  // One of the graph's, as `type`, transposed or not.
  std::string weight(ValueId id, OnnxType type, bool transposed);
  // Whether that matrix is read the way it is stored, too, as a tied head's is.
  [[nodiscard]] bool read_as_stored(ValueId id) const;

  // The node, its outputs those of ours.
  OnnxNode& write(const Node& node, std::string_view op, Names inputs, Attributes attributes = {});
  // A node more: its one output, named as it is.
  std::string part(std::string name, std::string_view op, Names inputs, Attributes attributes, OnnxType type,
                   const Dims& dims, std::string_view domain = {});
  // The same, of an output that has a name already; and outputs that the last one has besides.
  void part_as(const std::string& node, const std::string& output, std::string_view op, Names inputs, OnnxType type,
               const Dims& dims);
  void more_outputs(const Names& names);
  // The name, if a part has it.
  [[nodiscard]] std::string known(const std::string& name) const {
    return names_.contains(name) ? name : std::string();
  }
  // A value of ours is that one, of these dimensions.
  void hold(ValueId id, std::string name, OnnxType type, Dims dims);
  void hold_as(ValueId id, ValueId other);
  void uses(std::string_view domain) { domains_.emplace(domain, 1); }

  // The KV cache: one state, all its versions.
  struct State {
    std::string past, present;  // names
    std::string node;           // of its first write
    std::int64_t heads = 0, ctx = 0, cols = 0;
    std::vector<std::pair<std::int64_t, ValueId>> writes{};  // by column
    bool updated = false;

    [[nodiscard]] Dims dims() const { return {1, heads, ctx, cols / heads}; }
  };
  State& state(ValueId id) { return states_.at(value(id).state); }
  [[nodiscard]] std::int64_t ctx() const { return states_.begin()->second.ctx; }

 private:
  struct Made {
    std::string name;
    OnnxType type{};
    Dims dims;
  };
  void hold_constant(ValueId id);
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  void declare_decoder();
  void declare_output(const std::string& name, OnnxType type, const Dims& dims);
  [[nodiscard]] std::string unique(const std::string& name);
  void drop_unread();

  const Graph& graph_;
  OnnxForm form_;
  std::int64_t tokens_ = 0;  // of a decoder
  OnnxDraft draft_;
  std::vector<const Node*> makers_;
  std::vector<Made> made_;
  std::map<std::pair<std::string, Dims>, std::string> reshapes_;
  std::map<std::string, OnnxConstant> constants_;
  std::vector<std::string> constant_order_;
  std::set<std::string> names_;
  std::set<std::pair<const void*, Dims>> as_stored_;
  std::map<int, State> states_;
  std::map<std::string, std::int64_t, std::less<>> domains_;
};

// Null: a graph with it cannot be written.
using OnnxRow = void (*)(OnnxBuilder& builder, const Node& node);
OnnxRow onnx_row(Op op);

}  // namespace knapsack
