// Qwen3-MoE: Qwen3's attention; softmax-routed experts, their weights normalised when the config says so.
// Reference: transformers' modeling_qwen3_moe.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  TRY_VOID(hf_attention_bias(config, out));
  out.qk_norm = true;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  TRY_VOID(hf_qwen_experts(config, out));
  return hf_qwen_windows(config, false, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  out.qk_norm = true;
  TRY_VOID(gguf_experts(keys, out));
  out.norm_topk = true;  // GGUF has no key for it here; every Qwen3-MoE is so
  return {};
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_qwen3_moe;
const Architecture arch_qwen3_moe{from_hf, from_gguf, spec, build};

}  // namespace knapsack
