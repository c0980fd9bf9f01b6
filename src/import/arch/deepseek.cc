#include "import/arch/deepseek.h"

#include <cmath>

#include "import/limits.h"
#include "import/rope.h"

namespace knapsack {
namespace {

// YaRN's mscale_all_dim also scales the softmax, squared.
double softmax_scale(const ModelConfig& c) {
  double scale = 1 / std::sqrt(static_cast<double>(c.qk_nope + c.qk_rope));
  if (c.rope.scaling != RopeScaling::none && c.rope.mscale_all_dim > 0) {
    const double mscale = yarn_mscale(c.rope.factor, c.rope.mscale_all_dim);
    scale *= mscale * mscale;
  }
  return scale;
}

Result<void> check_sizes(const ModelConfig& c, const std::string& origin) {
  if (c.qk_rope % 2 != 0)
    return bad_input("{}: qk_rope_head_dim: expected an even number, found {}", origin, c.qk_rope);
  if (c.heads * (c.qk_nope + c.qk_rope) > limits::projection || c.heads * (c.qk_nope + c.v_head) > limits::projection ||
      c.heads * (c.kv_lora + c.qk_rope) > limits::projection)
    return bad_input("{}: heads x head size: expected at most {}, found {} heads of {} + {} (value {}, latent {})",
                     origin, limits::projection, c.heads, c.qk_nope, c.qk_rope, c.v_head, c.kv_lora);
  return {};
}

Result<void> read_experts(const Fields& config, ModelConfig& out) {
  TRY(out.experts, config.integer_or("n_routed_experts", 0, limits::experts, 0));
  TRY(const auto first, config.integer_or("first_k_dense_replace", 0, limits::layers, 0));
  TRY(const auto every, config.integer_or("moe_layer_freq", 1, limits::layers, 1));
  if (out.experts == 0) return {};
  TRY(out.top_k, config.integer("num_experts_per_tok", 1, out.experts));
  TRY(out.expert_ffn, config.integer("moe_intermediate_size", 1, limits::ffn));
  TRY(const auto shared, config.integer_or("n_shared_experts", 0, limits::experts, 0));
  out.shared_ffn = shared * out.expert_ffn;
  if (out.shared_ffn > limits::ffn)
    return config.wrong("n_shared_experts",
                        fmt::format("at most {} x moe_intermediate_size", limits::ffn / out.expert_ffn));
  TRY(out.routed_scale, config.number_or("routed_scaling_factor", 0, 1e6, 1));
  TRY(out.norm_topk, config.boolean_or("norm_topk_prob", false));
  for (std::int64_t i = 0; i < out.layers; ++i) out.moe_layers.push_back(i >= first && i % every == 0);
  return {};
}

}  // namespace

Result<void> deepseek_from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY(out.kv_lora, config.integer("kv_lora_rank", 1, limits::hidden));
  TRY(out.q_lora, config.integer_or("q_lora_rank", 1, limits::hidden, 0));
  TRY(out.qk_nope, config.integer("qk_nope_head_dim", 1, limits::head_dim));
  TRY(out.qk_rope, config.integer("qk_rope_head_dim", 2, limits::head_dim));
  TRY(out.v_head, config.integer("v_head_dim", 1, limits::head_dim));
  TRY_VOID(hf_decoder(config, {.head_dim = out.qk_rope}, out, oddities));
  TRY_VOID(check_sizes(out, config.origin()));
  TRY(out.q_a_bias, config.boolean_or("attention_bias", false));
  out.o_bias = out.q_a_bias;
  TRY(out.act, hf_activation(config, "hidden_act", "silu"));
  TRY_VOID(read_experts(config, out));
  out.rope.interleaved = true;
  out.attention_scale = softmax_scale(out);
  return {};
}

Result<void> deepseek_check_groups(const Fields& config, const ModelConfig& c, std::int64_t least) {
  const std::int64_t size = c.experts / c.groups;
  if (c.experts % c.groups != 0 || size < least)
    return config.wrong("n_group",
                        fmt::format("a divisor of n_routed_experts ({}){}", c.experts,
                                    least > 1 ? fmt::format(" with at least {} experts a group", least) : ""));
  if (c.top_k > size * c.top_groups)
    return config.wrong("num_experts_per_tok",
                        fmt::format("at most the {} experts of the chosen groups", size * c.top_groups));
  return {};
}

Result<void> deepseek_from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& /*oddities*/) {
  TRY(out.kv_lora, keys.integer("attention.kv_lora_rank", 1, limits::hidden));
  if (keys.has("attention.q_lora_rank")) {
    TRY(out.q_lora, keys.integer("attention.q_lora_rank", 0, limits::hidden));
  }
  // Files with attn_k_b and attn_v_b give the latent's sizes under key_length and the heads' under *_mla.
  const bool newer = keys.has("attention.key_length_mla");
  TRY(const auto key, keys.integer(newer ? "attention.key_length_mla" : "attention.key_length", 2, limits::head_dim));
  TRY(out.v_head, keys.integer(newer ? "attention.value_length_mla" : "attention.value_length", 1, limits::head_dim));
  TRY(out.qk_rope, keys.integer("rope.dimension_count", 2, key - 1));
  out.qk_nope = key - out.qk_rope;
  TRY_VOID(gguf_decoder(keys, out));
  out.kv_heads = out.heads;
  TRY_VOID(check_sizes(out, keys.path()));
  out.split_kv_b = keys.file().tensor("blk.0.attn_kv_b.weight") == nullptr;
  out.rope.interleaved = true;
  out.latent_eps = out.norm_eps;
  out.attention_scale = softmax_scale(out);
  TRY(const auto experts, keys.integer_or("expert_count", 0, limits::experts, 0));
  if (experts == 0) return {};
  TRY_VOID(gguf_experts(keys, out));
  TRY(const auto shared, keys.integer_or("expert_shared_count", 0, limits::experts, 0));
  out.shared_ffn = shared * out.expert_ffn;
  if (out.shared_ffn > limits::ffn)
    return bad_input("{}: {}: expected at most {}, found {}", keys.path(), keys.full("expert_shared_count"),
                     limits::ffn / out.expert_ffn, shared);
  TRY(out.routed_scale, keys.number_or("expert_weights_scale", 0, 1e6, 1));
  if (out.routed_scale == 0) out.routed_scale = 1;
  TRY(out.norm_topk, keys.boolean_or("expert_weights_norm", false));
  TRY(const auto gating, keys.integer_or("expert_gating_func", 0, 16, 1));
  if (gating > 2)
    return unsupported("{}: {}: expected 1 (softmax) or 2 (sigmoid), found {}", keys.path(),
                       keys.full("expert_gating_func"), gating);
  out.sigmoid_router = gating == 2;
  TRY(const auto dense, keys.integer_or("leading_dense_block_count", 0, limits::layers, 0));
  for (std::int64_t i = 0; i < out.layers; ++i) out.moe_layers[static_cast<std::size_t>(i)] = i >= dense;
  out.router_correction = keys.file().tensor(fmt::format("blk.{}.exp_probs_b.bias", dense)) != nullptr;
  TRY(out.groups, keys.integer_or("expert_group_count", 1, out.experts, 1));
  TRY(out.top_groups, keys.integer_or("expert_group_used_count", 1, out.groups, out.groups));
  if (out.experts % out.groups != 0)
    return bad_input("{}: {}: expected a divisor of the {} experts, found {}", keys.path(),
                     keys.full("expert_group_count"), out.experts, out.groups);
  out.group_score = out.sigmoid_router ? 1 : 0;
  if (out.groups > 1 && out.group_score == 1 && out.experts / out.groups < 2)
    return bad_input("{}: {}: expected groups of at least 2 experts, found {} of {}", keys.path(),
                     keys.full("expert_group_count"), out.groups, out.experts);
  return {};
}

void deepseek_spec(const ModelConfig& c, WeightSpec& spec) { spec_pre_norm(c, "shared_experts", spec); }
void deepseek_build(const ModelConfig& c, Decoder& decoder) { build_pre_norm(c, "shared_experts", decoder); }

}  // namespace knapsack
