// Gemma 3 (text): four norms a layer storing w-1, q/k norms, embeddings scaled by sqrt(hidden), sliding-window layers
// with a RoPE base of their own between full ones. Reference: transformers' modeling_gemma3.
#include <cmath>

#include "import/arch/arch.h"
#include "import/limits.h"
#include "import/rope.h"

namespace knapsack {
namespace {

Result<void> read_ropes(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  if (config.has("rope_parameters")) {  // the newer form: one object a layer type
    TRY(const Fields both, config.object("rope_parameters"));
    if (both.has("full_attention") || both.has("sliding_attention")) {
      TRY(const Fields full, both.object("full_attention"));
      TRY(const Fields sliding, both.object("sliding_attention"));
      TRY(out.rope, rope_from_object(full, config, 1e6, oddities));
      TRY(out.local_rope, rope_from_object(sliding, config, 1e4, oddities));
      return {};
    }
  }
  TRY(out.rope, rope_from_hf(config, 1e6, oddities));
  RopeConfig local;
  TRY(local.base, config.number_or("rope_local_base_freq", 1, 1e12, 1e4));
  out.local_rope = local;
  return {};
}

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(hf_decoder(config, {.head_dim = 256, .rope_base = 1e6, .tied = true}, out, oddities));
  TRY_VOID(read_ropes(config, out, oddities));
  TRY_VOID(hf_attention_bias(config, out));
  out.qk_norm = true;
  out.norm_offset = 1;
  out.embedding_scale = std::sqrt(static_cast<double>(out.hidden));
  TRY(out.act, hf_activation(config, "hidden_activation", "gelu_pytorch_tanh"));
  TRY(const double scalar, config.number_or("query_pre_attn_scalar", 1e-3, 1e6, 256));
  out.attention_scale = 1 / std::sqrt(scalar);
  TRY(out.final_softcap, config.number_or("final_logit_softcapping", 1e-3, 1e6, 0));
  if (config.has("attn_logit_softcapping"))
    oddities.push_back(fmt::format("{}: attn_logit_softcapping is ignored, as in the reference", config.origin()));
  TRY(const bool both_ways, config.boolean_or("use_bidirectional_attention", false));
  if (both_ways) return unsupported("{}: use_bidirectional_attention: only causal models run here", config.origin());
  TRY(const auto window,
      config.integer_or("sliding_window", 1, limits::ctx, config.raw().contains("sliding_window") ? 0 : 4096));
  TRY(const auto older, config.integer_or("_sliding_window_pattern", 1, limits::layers, 6));
  TRY(const auto pattern, config.integer_or("sliding_window_pattern", 1, limits::layers, older));
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < out.layers; ++i) slides.push_back((i + 1) % pattern != 0);
  return hf_layer_types(config, window, slides, out);
}

Result<void> from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY_VOID(gguf_decoder(keys, out));
  out.qk_norm = true;  // the stored norms are already w+1
  out.embedding_scale = std::sqrt(static_cast<double>(out.hidden));
  out.act = 2;
  // The 27B model alone scales by hidden / heads instead of the head size; the file does not say so.
  if (out.layers == 62)
    out.attention_scale = 1 / std::sqrt(static_cast<double>(out.hidden) / static_cast<double>(out.heads));
  TRY(out.attention_scale, keys.number_or("attention.scale", 1e-6, 1e6, out.attention_scale));
  TRY(out.final_softcap, keys.number_or("final_logit_softcapping", 0, 1e6, 0));
  if (!keys.has("rope.freq_base")) out.rope.base = 1e6;
  RopeConfig local;
  TRY(local.base, keys.number_or("rope.freq_base_swa", 1, 1e12, 1e4));
  local.partial = out.rope.partial;
  out.local_rope = local;
  std::vector<bool> slides;
  std::int64_t pattern = 6;
  if (keys.is_array("attention.sliding_window_pattern")) {
    TRY(const auto flags, keys.array("attention.sliding_window_pattern", out.layers));
    for (const auto flag : flags) slides.push_back(flag != 0);
  } else {
    TRY(pattern, keys.integer_or("attention.sliding_window_pattern", 1, limits::layers, 6));
    for (std::int64_t i = 0; i < out.layers; ++i) slides.push_back((i + 1) % pattern != 0);
  }
  return gguf_windows(keys, slides, out);
}

void spec(const ModelConfig& c, WeightSpec& out) {
  spec_ends(c, out);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string p = layer_prefix(i);
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      out.vector(fmt::format("{}{}.weight", p, norm), c.hidden);
    spec_attention(c, i, out);
    spec_mlp(c, p + "mlp.", c.ffn, out);
  }
}

void build(const ModelConfig& c, Decoder& d) {
  ValueId x = d.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string p = layer_prefix(i);
    const std::string n = Decoder::layer_name(i);
    ValueId y = d.attention(i, d.norm(n + ".attn_norm", x, p + "input_layernorm.weight"));
    x = d.add(n + ".attn.out", x, d.norm(n + ".attn.post_norm", y, p + "post_attention_layernorm.weight"));
    y = d.mlp(n + ".mlp.", p + "mlp.", d.norm(n + ".mlp_norm", x, p + "pre_feedforward_layernorm.weight"), c.ffn);
    x = d.add(n + ".out", x, d.norm(n + ".mlp.post_norm", y, p + "post_feedforward_layernorm.weight"));
  }
  d.finish(x);
}

}  // namespace

extern const Architecture arch_gemma3_text;
const Architecture arch_gemma3_text{from_hf, from_gguf, spec, build};

}  // namespace knapsack
