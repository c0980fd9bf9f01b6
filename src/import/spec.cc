#include "import/spec.h"

#include <fmt/core.h>

namespace knapsack {

std::string layer_prefix(std::int64_t layer) { return fmt::format("model.layers.{}.", layer); }

void spec_ends(const ModelConfig& c, WeightSpec& spec) {
  spec.matrix("model.embed_tokens.weight", c.vocab, c.hidden);
  spec.vector("model.norm.weight", c.hidden);
  if (!c.tied) spec.matrix("lm_head.weight", c.vocab, c.hidden);
}

void spec_attention(const ModelConfig& c, std::int64_t layer, WeightSpec& spec) {
  const std::string p = layer_prefix(layer) + "self_attn.";
  const std::int64_t q = c.heads * c.head_dim;
  const std::int64_t kv = c.kv_heads * c.head_dim;
  if (c.fused) {
    spec.matrix(p + "qkv_proj.weight", q + 2 * kv, c.hidden);
  } else {
    spec.matrix(p + "q_proj.weight", q, c.hidden);
    spec.vector_if(c.q_bias, p + "q_proj.bias", q);
    spec.matrix(p + "k_proj.weight", kv, c.hidden);
    spec.vector_if(c.k_bias, p + "k_proj.bias", kv);
    spec.matrix(p + "v_proj.weight", kv, c.hidden);
    spec.vector_if(c.v_bias, p + "v_proj.bias", kv);
  }
  spec.matrix(p + "o_proj.weight", c.hidden, q);
  spec.vector_if(c.o_bias, p + "o_proj.bias", c.hidden);
  spec.vector_if(c.qk_norm, p + "q_norm.weight", c.head_dim);
  spec.vector_if(c.qk_norm, p + "k_norm.weight", c.head_dim);
}

void spec_mla(const ModelConfig& c, std::int64_t layer, WeightSpec& spec) {
  const std::string p = layer_prefix(layer) + "self_attn.";
  const std::int64_t q = c.heads * (c.qk_nope + c.qk_rope);
  if (c.q_lora > 0) {
    spec.matrix(p + "q_a_proj.weight", c.q_lora, c.hidden);
    spec.vector_if(c.q_a_bias, p + "q_a_proj.bias", c.q_lora);
    spec.vector(p + "q_a_layernorm.weight", c.q_lora);
    spec.matrix(p + "q_b_proj.weight", q, c.q_lora);
  } else {
    spec.matrix(p + "q_proj.weight", q, c.hidden);
  }
  spec.matrix(p + "kv_a_proj_with_mqa.weight", c.kv_lora + c.qk_rope, c.hidden);
  spec.vector_if(c.q_a_bias, p + "kv_a_proj_with_mqa.bias", c.kv_lora + c.qk_rope);
  spec.vector(p + "kv_a_layernorm.weight", c.kv_lora);
  if (c.split_kv_b) {
    spec.stack(p + "k_b_proj.weight", c.heads, c.kv_lora, c.qk_nope);
    spec.stack(p + "v_b_proj.weight", c.heads, c.v_head, c.kv_lora);
  } else {
    spec.plain(p + "kv_b_proj.weight", c.heads * (c.qk_nope + c.v_head), c.kv_lora);
  }
  spec.matrix(p + "o_proj.weight", c.hidden, c.heads * c.v_head);
  spec.vector_if(c.o_bias, p + "o_proj.bias", c.hidden);
}

void spec_mlp(const ModelConfig& c, const std::string& p, std::int64_t ffn, WeightSpec& spec) {
  if (c.fused) {
    spec.matrix(p + "gate_up_proj.weight", 2 * ffn, c.hidden);
  } else {
    spec.matrix(p + "gate_proj.weight", ffn, c.hidden);
    spec.vector_if(c.mlp_bias, p + "gate_proj.bias", ffn);
    spec.matrix(p + "up_proj.weight", ffn, c.hidden);
    spec.vector_if(c.mlp_bias, p + "up_proj.bias", ffn);
  }
  spec.matrix(p + "down_proj.weight", c.hidden, ffn);
  spec.vector_if(c.mlp_bias, p + "down_proj.bias", c.hidden);
}

void spec_moe(const ModelConfig& c, std::int64_t layer, const std::string& shared, WeightSpec& spec) {
  const std::string p = layer_prefix(layer) + "mlp.";
  spec.matrix(p + "gate.weight", c.experts, c.hidden);
  if (c.router_correction) spec.vector(p + "gate.e_score_correction_bias", c.experts);
  spec.stack(p + "experts.*.gate_proj.weight", c.experts, c.expert_ffn, c.hidden);
  spec.stack(p + "experts.*.up_proj.weight", c.experts, c.expert_ffn, c.hidden);
  spec.stack(p + "experts.*.down_proj.weight", c.experts, c.hidden, c.expert_ffn);
  if (c.shared_ffn > 0) {
    spec_mlp(c, p + shared + ".", c.shared_ffn, spec);
    if (c.shared_gate) spec.matrix(p + "shared_expert_gate.weight", 1, c.hidden);
  }
}

}  // namespace knapsack
