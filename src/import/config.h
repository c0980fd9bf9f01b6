// A model's hyper-parameters, one vocabulary for config.json and GGUF keys. Readers check ranges; architectures
// (arch/) say what is required. -1 or empty: absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace knapsack {

enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn, longrope };

struct RopeConfig {
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  std::int64_t original_ctx = 0;
  double low_freq_factor = 1, high_freq_factor = 4;                      // llama3
  double beta_fast = 32, beta_slow = 1, mscale = 0, mscale_all_dim = 0;  // YaRN
  double attention_factor = 0;                                           // on cos and sin; 0: derived
  bool truncate = true;                                                  // YaRN: floor/ceil the correction range
  std::vector<float> long_factor, short_factor;                          // LongRoPE
  std::vector<float> factors;                                            // GGUF rope_freqs: divides inv_freq
  double partial = 1;                                                    // share of head_dim that is rotated
  bool interleaved = false;
};

struct ModelConfig {
  std::string architecture;  // row of arch.inc
  std::int64_t hidden = -1, layers = -1, heads = -1, kv_heads = -1, head_dim = -1, ffn = -1, vocab = -1, ctx = -1;
  double norm_eps = 1e-6;
  double norm_offset = 0;  // 1 where the checkpoint stores w-1 (Gemma in Hugging Face form)
  bool tied = false;
  bool q_bias = false, k_bias = false, v_bias = false, o_bias = false, mlp_bias = false, qk_norm = false;
  bool fused = false;  // one qkv_proj, one gate_up_proj (Phi-3)
  int act = 0;         // gated_act's numbering
  double embedding_scale = 1, attention_scale = 0, attention_softcap = 0, final_softcap = 0;
  std::vector<std::int64_t> windows;  // by layer; 0: full attention. empty: all full
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of sliding-window layers, where it differs (Gemma 3)
  // MLA
  std::int64_t q_lora = 0, kv_lora = 0, qk_nope = 0, qk_rope = 0, v_head = 0;
  bool split_kv_b = false;   // GGUF: attn_k_b (transposed) and attn_v_b instead of kv_b_proj
  bool q_a_bias = false;     // and kv_a: DeepSeek's attention_bias
  double latent_eps = 1e-6;  // of the norms inside MLA
  // MoE
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0, groups = 1, top_groups = 1;
  std::vector<bool> moe_layers;  // by layer; empty: all dense
  bool norm_topk = false, sigmoid_router = false, router_correction = false, shared_gate = false;
  int group_score = 0;
  double routed_scale = 1;

  [[nodiscard]] bool moe(std::int64_t layer) const {
    return !moe_layers.empty() && moe_layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] std::int64_t window(std::int64_t layer) const {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] const RopeConfig& rope_of(std::int64_t layer) const {
    return local_rope && window(layer) > 0 ? *local_rope : rope;
  }
  [[nodiscard]] std::int64_t rotary() const;  // columns of a head that are rotated
};

}  // namespace knapsack
