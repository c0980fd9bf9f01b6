// A model's graph in primitive operators, as the exporters of ONNX and torch write it: no fused op, static shapes, one
// sequence. What NPU toolchains are asked about. Not for execution, and not for deciding where a node runs (src/plan).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

enum class OnnxOp : std::uint8_t {
#define KNAP_ONNX(name, cls) name,
#include "graph/decompose/operators.inc"
#undef KNAP_ONNX
};
std::string_view onnx_name(OnnxOp op);
OpClass onnx_class(OnnxOp op);

enum class OnnxType : std::uint8_t { float16, float32, int64, boolean };
std::string_view onnx_type_name(OnnxType type);
std::int64_t onnx_type_bytes(OnnxType type);

// What a shape rule knows of a value.
struct OnnxShape {
  OnnxType type = OnnxType::float16;
  std::vector<std::int64_t> dims{};
  bool dynamic = false;  // a dimension depends on data (NonZero); dims holds the most it can be

  [[nodiscard]] std::int64_t elements() const;
};

struct PrimitiveTensor {
  std::string name{};
  ValueKind kind = ValueKind::computed;
  OnnxShape shape{};
  std::int64_t bytes = 0;       // weights: as the checkpoint stores them; 0: without data
  std::string stored{};         // weights: their storage format, "Q4_0"; empty: none
  bool minus_infinity = false;  // a constant that holds it
};

// What a node is for, where that decides what can be done about it.
enum class Purpose : std::uint8_t { plain, rope_table, mask, kv_append, repeat_heads, embedding, latent_up };
std::string_view purpose_name(Purpose purpose);

struct PrimitiveNode {
  OnnxOp op{};
  std::string name{};
  std::vector<int> inputs{};  // numbers of tensors
  std::vector<int> outputs{};
  std::vector<std::int64_t> numbers{};  // axes, sizes: operators.cc says which, by operator
  std::int64_t layer = -1;              // -1: of no layer
  Op from{};                            // the op of ours that it is a part of
  std::string from_node{};
  Purpose purpose = Purpose::plain;
};

struct PrimitiveGraph {
  std::int64_t tokens = 0;  // of the step
  std::int64_t past = 0;    // in the KV cache before it
  std::vector<PrimitiveTensor> tensors{};
  std::vector<PrimitiveNode> nodes{};  // each after those it reads
  std::vector<int> outputs{};          // the logits, then the KV caches

  [[nodiscard]] const PrimitiveTensor& tensor(int id) const { return tensors[static_cast<std::size_t>(id)]; }
};

struct DecomposeOptions {
  std::int64_t tokens = 1;  // >= 1
  std::int64_t past = 0;    // >= 0
  bool stored = true;       // false: of a config alone, where nothing says how weights are stored
};

// The graph must verify. Logits are those of the last token.
PrimitiveGraph decompose(const Graph& graph, const DecomposeOptions& options);

// The outputs of an operator, or the rule that is broken.
Result<std::vector<OnnxShape>> infer_onnx(OnnxOp op, std::span<const std::int64_t> numbers,
                                          std::span<const OnnxShape* const> inputs);

// Every input of a node is an output of an earlier one, an input, a constant or a state; every output has one maker,
// and the shape and type that the operator's rule gives it. Names the node.
Result<void> verify(const PrimitiveGraph& graph);

}  // namespace knapsack
