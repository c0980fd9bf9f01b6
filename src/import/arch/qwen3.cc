// Qwen3: an RMS norm on each head of Q and K, a head size of its own. Reference: transformers' modeling_qwen3.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {.head_dim = 128}, out, oddities));
  TRY_VOID(hf_attention_bias(config, out));
  out.qk_norm = true;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  return hf_qwen_windows(config, true, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  out.qk_norm = true;
  return {};
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_qwen3;
const Architecture arch_qwen3{from_hf, from_gguf, spec, build};

}  // namespace knapsack
