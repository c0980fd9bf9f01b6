// Builds a decoder's graph out of the parts architectures share. An architecture (arch/) decides which parts, in what
// order; here is how each part becomes nodes. Reads only weights that spec.h's functions of the same name declare.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"
#include "import/checkpoint.h"
#include "import/config.h"

namespace knapsack {

class Decoder {
 public:
  // config and weights are borrowed. ctx: the context that will be used (LongRoPE).
  Decoder(const ModelConfig& config, const Weights& weights, std::int64_t ctx);

  ValueId embed();  // "embed" [T, hidden]
  ValueId norm(const std::string& name, ValueId x, const std::string& weight);
  ValueId add(const std::string& name, ValueId a, ValueId b);
  ValueId attention(std::int64_t layer, ValueId x);  // [T, hidden] -> [T, hidden], no residual
  ValueId mla(std::int64_t layer, ValueId x);
  ValueId mlp(const std::string& name, const std::string& weights, ValueId x, std::int64_t ffn);
  ValueId moe(std::int64_t layer, ValueId x, const std::string& shared);
  void finish(ValueId x);  // selected rows, "norm", "logits"

  // x + attention(norm(x)), then + mlp or moe of the norm of that: the pre-norm layer of all but Gemma.
  ValueId pre_norm_layer(std::int64_t layer, ValueId x, const std::string& shared);

  Graph take() { return std::move(graph_); }
  static std::string layer_name(std::int64_t layer);

 private:
  ValueId constant(const std::shared_ptr<const Weight>& weight);
  ValueId linear(const std::string& name, ValueId x, const std::string& weight);  // + ".bias" where declared
  ValueId linear_rows(const std::string& name, ValueId x, const std::string& weight, std::int64_t begin,
                      std::int64_t count);
  ValueId ordered(const std::string& name, ValueId x, const LoadedWeight& weight);
  ValueId rope(const std::string& name, ValueId x, std::int64_t layer, std::int64_t heads, std::int64_t stride,
               std::int64_t begin);
  ValueId head_norm(const std::string& name, ValueId x, const std::string& weight, double eps, std::int64_t width);
  const LoadedWeight* bias_of(const std::string& weight) const;

  struct Rope {
    ValueId inv_freq = -1;
    float scale = 1;
  };
  const ModelConfig& config_;
  const Weights& weights_;
  Graph graph_;
  std::map<const Weight*, ValueId> constants_;
  Rope ropes_[2];  // 0: full, 1: sliding-window layers where they differ
};

}  // namespace knapsack
