// What most config.json have in common, read with ranges; architectures (arch/) call the pieces they have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/config.h"
#include "import/fields.h"

namespace knapsack {

struct HfDefaults {
  std::int64_t head_dim = 0;  // where config.json has none; 0: hidden_size / num_attention_heads
  double rope_base = 10000;
  bool tied = false;
};

// hidden_size, layers, heads, kv heads, head_dim, ffn, vocab, ctx, eps, activation, tying, RoPE: checked together.
Result<void> hf_decoder(const Fields& config, const HfDefaults& defaults, ModelConfig& out,
                        std::vector<std::string>& oddities);
// attention_bias, on all four projections.
Result<void> hf_attention_bias(const Fields& config, ModelConfig& out);
Result<int> hf_activation(const Fields& config, std::string_view key, std::string_view otherwise);

// layer_types, checked; "sliding_attention" layers get `window`. Absent: every layer as `sliding` says.
Result<void> hf_layer_types(const Fields& config, std::int64_t window, const std::vector<bool>& sliding,
                            ModelConfig& out);
// use_sliding_window, sliding_window, max_window_layers, layer_types as the Qwen configs mean them.
// by_layer: layers below max_window_layers see everything; else all layers are alike.
Result<void> hf_qwen_windows(const Fields& config, bool by_layer, ModelConfig& out);
// sliding_window on every layer; missing (not null): `otherwise`.
Result<void> hf_uniform_window(const Fields& config, std::int64_t otherwise, ModelConfig& out);

// num_experts, num_experts_per_tok, moe_intermediate_size, norm_topk_prob, decoder_sparse_step, mlp_only_layers.
Result<void> hf_qwen_experts(const Fields& config, ModelConfig& out);

}  // namespace knapsack
