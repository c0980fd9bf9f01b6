// Qwen2-MoE: Qwen2's attention; softmax-routed experts beside a shared expert behind a sigmoid gate.
// Reference: transformers' modeling_qwen2_moe.
#include "import/arch/arch.h"
#include "import/limits.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  TRY(const bool bias, config.boolean_or("qkv_bias", true));
  out.q_bias = out.k_bias = out.v_bias = bias;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  TRY_VOID(hf_qwen_experts(config, out));
  if (out.experts > 0) {
    TRY(out.shared_ffn, config.integer("shared_expert_intermediate_size", 1, limits::ffn));
  }
  out.shared_gate = true;
  return hf_qwen_windows(config, false, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  TRY_VOID(gguf_experts(keys, out));
  TRY(out.shared_ffn, keys.integer_or("expert_shared_feed_forward_length", 1, limits::ffn, out.ffn));
  out.shared_gate = true;
  return {};
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "shared_expert", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "shared_expert", decoder); }

}  // namespace

extern const Architecture arch_qwen2_moe;
const Architecture arch_qwen2_moe{from_hf, from_gguf, spec, build};

}  // namespace knapsack
