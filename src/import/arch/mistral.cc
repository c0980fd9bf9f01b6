// Mistral: Llama with a sliding window on every layer (null in later versions) and no biases.
// Reference: transformers' modeling_mistral; its window defaults to 4096 where config.json does not name one.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  return hf_uniform_window(config, 4096, out);
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_mistral;
const Architecture arch_mistral{from_hf, nullptr, spec, build};

}  // namespace knapsack
