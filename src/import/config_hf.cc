#include "import/config_hf.h"

#include <cmath>

#include "import/limits.h"
#include "import/rope.h"

namespace knapsack {
namespace {

Result<void> check_rope_lists(const Fields& config, const RopeConfig& rope, std::int64_t rotary) {
  if (rope.scaling != RopeScaling::longrope) return {};
  for (const auto& [key, list] :
       {std::pair("short_factor", &rope.short_factor), std::pair("long_factor", &rope.long_factor)})
    if (static_cast<std::int64_t>(list->size()) != rotary / 2)
      return bad_input("{}: rope_scaling: {}: expected {} numbers (half the rotated width {}), found {}",
                       config.origin(), key, rotary / 2, rotary, list->size());
  return {};
}

}  // namespace

Result<int> hf_activation(const Fields& config, std::string_view key, std::string_view otherwise) {
  TRY(const std::string act, config.text_or(key, otherwise));
  if (act == "silu" || act == "swish") return 0;
  if (act == "gelu") return 1;
  if (act == "gelu_pytorch_tanh" || act == "gelu_new" || act == "gelu_fast") return 2;
  return unsupported("{}: {}: activation \"{}\" is not known here; known: silu, gelu, gelu_pytorch_tanh, gelu_new",
                     config.origin(), key, act);
}

Result<void> hf_decoder(const Fields& config, const HfDefaults& defaults, ModelConfig& out,
                        std::vector<std::string>& oddities) {
  TRY(out.hidden, config.integer("hidden_size", 1, limits::hidden));
  TRY(out.layers, config.integer("num_hidden_layers", 1, limits::layers));
  TRY(out.heads, config.integer("num_attention_heads", 1, limits::heads));
  TRY(out.kv_heads, config.integer_or("num_key_value_heads", 1, limits::heads, out.heads));
  TRY(out.head_dim, config.integer_or("head_dim", 2, limits::head_dim, defaults.head_dim));
  TRY(out.ffn, config.integer("intermediate_size", 1, limits::ffn));
  TRY(out.vocab, config.integer("vocab_size", 1, limits::vocab));
  TRY(out.ctx, config.integer("max_position_embeddings", 1, limits::ctx));
  TRY(out.norm_eps, config.number("rms_norm_eps", 0, 1));
  TRY(out.tied, config.boolean_or("tie_word_embeddings", defaults.tied));
  if (out.head_dim == 0) {
    if (out.hidden % out.heads != 0)
      return bad_input("{}: hidden_size {} is not a multiple of num_attention_heads {}, and there is no head_dim",
                       config.origin(), out.hidden, out.heads);
    out.head_dim = out.hidden / out.heads;
  }
  if (out.heads % out.kv_heads != 0)
    return bad_input("{}: num_attention_heads: expected a multiple of num_key_value_heads {}, found {}",
                     config.origin(), out.kv_heads, out.heads);
  if (out.heads * out.head_dim > limits::projection)
    return bad_input("{}: num_attention_heads x head_dim: expected at most {}, found {}", config.origin(),
                     limits::projection, out.heads * out.head_dim);
  TRY(out.rope, rope_from_hf(config, defaults.rope_base, oddities));
  out.attention_scale = 1 / std::sqrt(static_cast<double>(out.head_dim));
  const std::int64_t rotary = out.rotary();
  if (out.kv_lora == 0 && (rotary < 2 || rotary % 2 != 0))
    return bad_input("{}: head_dim: expected an even rotated width for RoPE, found {} (head_dim {})", config.origin(),
                     rotary, out.head_dim);
  return check_rope_lists(config, out.rope, rotary);
}

Result<void> hf_attention_bias(const Fields& config, ModelConfig& out) {
  TRY(const bool bias, config.boolean_or("attention_bias", false));
  out.q_bias = out.k_bias = out.v_bias = out.o_bias = bias;
  return {};
}

Result<void> hf_layer_types(const Fields& config, std::int64_t window, const std::vector<bool>& sliding,
                            ModelConfig& out) {
  std::vector<bool> slides = sliding;
  slides.resize(static_cast<std::size_t>(out.layers));
  if (config.has("layer_types")) {
    TRY(const auto types, config.texts("layer_types", static_cast<std::size_t>(limits::layers)));
    if (static_cast<std::int64_t>(types.size()) != out.layers)
      return config.wrong("layer_types", fmt::format("one entry a layer ({})", out.layers));
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "full_attention" && types[i] != "sliding_attention")
        return unsupported(
            "{}: layer_types: \"{}\" of layer {} is not known here; known: full_attention, sliding_attention",
            config.origin(), types[i], i);
      slides[i] = types[i] == "sliding_attention";
    }
  }
  bool any = false;
  for (const bool slide : slides) any = any || slide;
  if (!any) return {};
  if (window <= 0)
    return bad_input("{}: sliding_window: expected a number, for layer_types has sliding_attention layers; found none",
                     config.origin());
  for (const bool slide : slides) out.windows.push_back(slide ? window : 0);
  return {};
}

Result<void> hf_qwen_windows(const Fields& config, bool by_layer, ModelConfig& out) {
  TRY(const bool use, config.boolean_or("use_sliding_window", false));
  TRY(const auto window,
      config.integer_or("sliding_window", 1, limits::ctx, config.raw().contains("sliding_window") ? 0 : 4096));
  TRY(const auto first, config.integer_or("max_window_layers", 0, std::int64_t{1} << 32, 28));
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < out.layers; ++i) slides.push_back(use && window > 0 && (!by_layer || i >= first));
  return hf_layer_types(config, use ? window : 0, slides, out);
}

Result<void> hf_uniform_window(const Fields& config, std::int64_t otherwise, ModelConfig& out) {
  TRY(const auto window,
      config.integer_or("sliding_window", 1, limits::ctx, config.raw().contains("sliding_window") ? 0 : otherwise));
  if (window > 0) out.windows.assign(static_cast<std::size_t>(out.layers), window);
  return {};
}

Result<void> hf_qwen_experts(const Fields& config, ModelConfig& out) {
  TRY(out.experts, config.integer("num_experts", 0, limits::experts));
  TRY(const auto step, config.integer_or("decoder_sparse_step", 1, limits::layers, 1));
  std::vector<std::int64_t> dense;
  if (config.has("mlp_only_layers")) {
    TRY(dense, config.integers("mlp_only_layers", 0, limits::layers, static_cast<std::size_t>(limits::layers)));
  }
  if (out.experts == 0) return {};
  TRY(out.top_k, config.integer("num_experts_per_tok", 1, out.experts));
  TRY(out.expert_ffn, config.integer("moe_intermediate_size", 1, limits::ffn));
  TRY(out.norm_topk, config.boolean_or("norm_topk_prob", false));
  for (std::int64_t i = 0; i < out.layers; ++i) out.moe_layers.push_back((i + 1) % step == 0);
  for (const std::int64_t layer : dense)
    if (layer < out.layers) out.moe_layers[static_cast<std::size_t>(layer)] = false;
  return {};
}

}  // namespace knapsack
