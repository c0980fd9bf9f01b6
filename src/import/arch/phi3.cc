// Phi-3: Llama with fused projections (qkv_proj, gate_up_proj), LongRoPE in its long-context versions.
// Reference: transformers' modeling_phi3.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  out.fused = true;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  return hf_uniform_window(config, 0, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  out.fused = true;
  return gguf_windows(keys, {}, out);
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_phi3;
const Architecture arch_phi3{from_hf, from_gguf, spec, build};

}  // namespace knapsack
