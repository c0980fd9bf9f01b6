// A model's graph in primitive operators. Two forms:
// - as the exporters of ONNX and torch write it (KvForm::appended): token ids, positions and the KV rows of before are
//   inputs, new rows are appended to them, experts take the tokens that chose them. What NPU toolchains are asked about
//   (src/plan), and what a model is compared with for its number of nodes. Experts of this form cannot be run: how many
//   tokens one takes depends on data.
// - as it runs (KvForm::indexed): states stay, kv_write puts rows in their place and kv_read gives them all. Only the
//   nodes that are asked for are decomposed; so passes use it, and export to ONNX.
// Not for deciding where a node runs (src/plan).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace knapsack {

enum class KvForm : std::uint8_t { appended, indexed };

struct DecomposeOptions {
  std::int64_t tokens = 1;  // >= 1
  std::int64_t past = 0;    // appended: rows in the KV cache before the step, >= 0
  bool stored = true;       // false: of a config alone, where nothing says how weights are stored
  KvForm kv = KvForm::appended;
  std::int64_t ctx = 0;  // indexed: rows that the KV cache has, > 0
  DType floats =
      DType::F16;  // of activations; norms, tables of positions and softmax are computed in F32 between Casts
  // indexed: whether a node is decomposed; null: every one. A router and its moe go together.
  std::function<bool(const Node&)> decomposes = nullptr;
};

// The graph must verify; indexed: its shapes may be static already, of the same tokens and context. Logits are those of
// the last token.
Graph decompose(const Graph& graph, const DecomposeOptions& options);

// "float16": what ONNX calls the type of an element.
std::string_view onnx_type_name(DType type);

}  // namespace knapsack
