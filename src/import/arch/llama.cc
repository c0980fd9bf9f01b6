// Llama 2 and 3 and what is built like them (SmolLM2): grouped-query attention, gated MLP, RMS norms before each.
// Reference: transformers' modeling_llama.
#include "import/arch/arch.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {}, out, oddities));
  TRY_VOID(hf_attention_bias(config, out));
  TRY(out.mlp_bias, config.boolean_or("mlp_bias", false));
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  return {};
}

// Mistral's GGUF files carry the same name; the window key is theirs.
Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  if (keys.has("expert_count")) {
    TRY(const auto experts, keys.integer("expert_count", 0, 4096));
    if (experts > 0)
      return unsupported("{}: {} is {}: mixtures of experts of the llama architecture (Mixtral) are not read here",
                         keys.path(), keys.full("expert_count"), experts);
  }
  out.rope.interleaved = true;  // GGUF stores Q and K with the rows of each head interleaved
  return gguf_windows(keys, {}, out);
}

void spec(const ModelConfig& c, WeightSpec& out) { spec_pre_norm(c, "", out); }
void build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "", decoder); }

}  // namespace

extern const Architecture arch_llama;
const Architecture arch_llama{from_hf, from_gguf, spec, build};

}  // namespace knapsack
