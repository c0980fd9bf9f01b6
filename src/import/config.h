// A model's hyper-parameters, one vocabulary for config.json and GGUF keys. Readers check ranges; architectures
// (arch/) say what is required. -1 or empty: absent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace knapsack {

enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn, longrope };

struct RopeConfig {
  double base = 10000;
  double local_base = 0;  // > 0: base of sliding-window layers (Gemma 3)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  std::int64_t original_ctx = 0;
  double low_freq_factor = 1, high_freq_factor = 4;              // llama3
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0;  // YaRN
  double attention_factor = 0;                                   // 0: derived
  bool truncate = true;                                          // YaRN: floor/ceil the correction range
  std::vector<float> long_factor, short_factor;                  // LongRoPE
  std::vector<float> factors;  // GGUF rope_freqs: divides inv_freq
  double partial = 1;          // share of head_dim that is rotated
  bool interleaved = false;
};

struct ModelConfig {
  std::string architecture;  // row of arch.inc
  std::int64_t hidden = -1, layers = -1, heads = -1, kv_heads = -1, head_dim = -1, ffn = -1, vocab = -1, ctx = -1;
  double norm_eps = 1e-6;
  double norm_offset = 0;  // 1 where the checkpoint stores w-1 (Gemma in Hugging Face form)
  bool tied = false;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false, mlp_bias = false, qk_norm = false;
  int act = 0;  // gated_act's numbering
  double embedding_scale = 1, attention_scale = 0, attention_softcap = 0, final_softcap = 0;
  std::vector<std::int64_t> windows;  // by layer; 0: full attention. empty: all full
  RopeConfig rope;
  // MLA
  std::int64_t q_lora = 0, kv_lora = 0, qk_nope = 0, qk_rope = 0, v_head = 0;
  // MoE
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0, groups = 1, top_groups = 1;
  std::vector<bool> moe_layers;  // by layer; empty: all dense
  bool norm_topk = false, sigmoid_router = false, router_correction = false, shared_gate = false;
  int group_score = 0;
  double routed_scale = 1;
};

}  // namespace knapsack
