// Qwen2 and 2.5, and so DeepSeek-R1-Distill-Qwen: Llama with biases on Q, K and V, windows on the upper layers when
// asked for. Reference: transformers' modeling_qwen2.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  out.q_bias = out.k_bias = out.v_bias = true;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  return hf_qwen_windows(config, true, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  out.q_bias = out.k_bias = out.v_bias = true;
  return {};
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_qwen2;
const Architecture arch_qwen2{from_hf, from_gguf, spec, build};

}  // namespace knapsack
