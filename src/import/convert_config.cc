#include <algorithm>
#include <cmath>
#include <cstring>

#include "import/convert_parts.h"
#include "import/rope.h"

namespace knapsack {
namespace {

class Keys {
 public:
  Keys(GgufWriter& writer, std::string_view prefix) : writer_(writer), prefix_(prefix) {}
  void u32(std::string_view key, std::int64_t value) { writer_.add_u32(full(key), static_cast<std::uint32_t>(value)); }
  void f32(std::string_view key, double value) { writer_.add_f32(full(key), static_cast<float>(value)); }
  void boolean(std::string_view key, bool value) { writer_.add_bool(full(key), value); }
  void text(std::string_view key, std::string_view value) { writer_.add_string(full(key), value); }
  void u32s(std::string_view key, const std::vector<std::int32_t>& values) { writer_.add_i32s(full(key), values); }

 private:
  [[nodiscard]] std::string full(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }
  GgufWriter& writer_;
  std::string prefix_;
};

void add_factors(GgufWriter& writer, std::string name, const std::vector<float>& values) {
  writer.add_tensor(std::move(name), DType::F32, {static_cast<std::int64_t>(values.size())},
                    [values](std::span<std::byte> out) -> Result<void> {
                      std::memcpy(out.data(), values.data(), out.size());
                      return {};
                    });
}

Result<void> check_expressible(const ArchitectureRow& row, const ModelConfig& c) {
  const int act = row.id == "gemma3_text" ? 2 : 0;
  if (c.act != act)
    return unsupported("convert: GGUF's {} always means another activation than this model's", row.gguf);
  const bool biased = row.gguf == "llama";
  if ((c.o_bias && !biased) || (c.mlp_bias && !biased))
    return unsupported("convert: GGUF's {} has no place for this model's output or MLP biases", row.gguf);
  if (row.id == "qwen2_moe" && !std::all_of(c.moe_layers.begin(), c.moe_layers.end(), [](bool moe) { return moe; }))
    return unsupported("convert: GGUF's {} has experts on every layer; here some layers have none", row.gguf);
  if (row.id == "qwen3_moe" &&
      (!std::all_of(c.moe_layers.begin(), c.moe_layers.end(), [](bool moe) { return moe; }) || !c.norm_topk))
    return unsupported("convert: GGUF's {} has experts on every layer and normalised weights; this model differs",
                       row.gguf);
  if ((row.id == "qwen2_moe" || row.id == "qwen3_moe") && c.experts == 0)
    return unsupported("convert: GGUF's {} has experts; this model has none", row.gguf);
  if (row.id == "qwen2_moe" && c.tied)
    return unsupported("convert: GGUF's {} has a head of its own; this one is tied", row.gguf);
  if ((row.id == "qwen2" || row.id == "qwen2_moe") && !c.q_bias)
    return unsupported("convert: GGUF's {} has biases on Q, K and V; this model has none", row.gguf);
  if (row.gguf == "llama" && c.rope.partial != 1)
    return unsupported("convert: GGUF's llama rotates whole heads; this model rotates a share of {:g}", c.rope.partial);
  if (c.kv_lora > 0 && !c.rope.interleaved)
    return unsupported("convert: GGUF's deepseek2 has interleaved RoPE; this model has the half-split one");
  if (c.kv_lora > 0 && c.latent_eps != c.norm_eps && c.norm_eps > 2e-5)
    return unsupported("convert: GGUF's deepseek2 has one epsilon; here the latent norms have {:g}, the others {:g}",
                       c.latent_eps, c.norm_eps);
  const auto first_moe = std::find(c.moe_layers.begin(), c.moe_layers.end(), true);
  if (c.kv_lora > 0 && std::find(first_moe, c.moe_layers.end(), false) != c.moe_layers.end())
    return unsupported(
        "convert: GGUF's deepseek2 has experts on every layer after the first dense ones; this model skips some");
  if (c.kv_lora > 0 && c.q_a_bias) return unsupported("convert: GGUF's deepseek2 has no place for attention biases");
  return {};
}

Result<void> write_rope(const ModelConfig& c, Keys& keys, GgufWriter& writer) {
  const RopeConfig& rope = c.rope;
  keys.u32("rope.dimension_count", c.rotary());
  keys.f32("rope.freq_base", rope.base);
  const double mscale_plain = yarn_mscale(rope.factor, 1);
  switch (rope.scaling) {
    case RopeScaling::none:
      return {};
    case RopeScaling::linear:
      keys.text("rope.scaling.type", "linear");
      keys.f32("rope.scaling.factor", rope.factor);
      return {};
    case RopeScaling::llama3: {
      RopeConfig plain;
      plain.base = rope.base;
      const RopeTable scaled = rope_table(rope, c.rotary(), c.ctx);
      const RopeTable without = rope_table(plain, c.rotary(), c.ctx);
      std::vector<float> factors;
      for (std::size_t i = 0; i < scaled.inv_freq.size(); ++i)
        factors.push_back(without.inv_freq[i] / scaled.inv_freq[i]);
      add_factors(writer, "rope_freqs.weight", factors);
      return {};
    }
    case RopeScaling::yarn:
      if (!rope.truncate) return unsupported("convert: GGUF has no key for YaRN with truncate false");
      if (c.kv_lora > 0 &&
          (rope.mscale_all_dim <= 0 || rope.mscale != rope.mscale_all_dim || rope.attention_factor > 0))
        return unsupported(
            "convert: GGUF's deepseek2 needs YaRN with equal mscale and mscale_all_dim, found {:g} and {:g}",
            rope.mscale, rope.mscale_all_dim);
      keys.text("rope.scaling.type", "yarn");
      keys.f32("rope.scaling.factor", rope.factor);
      keys.u32("rope.scaling.original_context_length", rope.original_ctx);
      keys.f32("rope.scaling.yarn_beta_fast", rope.beta_fast);
      keys.f32("rope.scaling.yarn_beta_slow", rope.beta_slow);
      if (c.kv_lora > 0) {
        keys.f32("rope.scaling.yarn_log_multiplier", 0.1 * rope.mscale_all_dim);
      } else {
        const double meant = static_cast<double>(rope_table(rope, c.rotary(), c.ctx).scale);
        if (std::abs(meant / mscale_plain - 1) > 1e-6) keys.f32("rope.scaling.attn_factor", meant / mscale_plain);
      }
      return {};
    case RopeScaling::longrope:
      keys.text("rope.scaling.type", "longrope");
      keys.u32("rope.scaling.original_context_length", rope.original_ctx);
      keys.f32("rope.scaling.attn_factor", static_cast<double>(rope_table(rope, c.rotary(), c.ctx).scale));
      add_factors(writer, "rope_factors_long.weight", rope.long_factor);
      add_factors(writer, "rope_factors_short.weight", rope.short_factor);
      return {};
  }
  return {};
}

void write_experts(const ModelConfig& c, Keys& keys, std::vector<std::string>& warnings) {
  if (c.kv_lora > 0) {
    const auto first = std::find(c.moe_layers.begin(), c.moe_layers.end(), true) - c.moe_layers.begin();
    keys.u32("leading_dense_block_count", c.experts > 0 ? first : c.layers);
    keys.u32("expert_shared_count", c.experts > 0 && c.expert_ffn > 0 ? c.shared_ffn / c.expert_ffn : 0);
    keys.u32("expert_feed_forward_length", c.experts > 0 ? c.expert_ffn : c.ffn);
    if (c.experts == 0) return;
    keys.f32("expert_weights_scale", c.routed_scale);
    keys.boolean("expert_weights_norm", c.norm_topk);
    keys.u32("expert_gating_func", c.sigmoid_router ? 2 : 1);
    if (c.groups > 1 && c.group_score == 0)
      warnings.emplace_back(
          "llama.cpp scores groups of experts by the sum of their best two; this model by the best one: it will choose "
          "others");
    if (c.groups > 1) {
      keys.u32("expert_group_count", c.groups);
      keys.u32("expert_group_used_count", c.top_groups);
    }
  } else if (c.experts > 0) {
    keys.u32("expert_feed_forward_length", c.expert_ffn);
    if (c.shared_ffn > 0) keys.u32("expert_shared_feed_forward_length", c.shared_ffn);
  }
  if (c.experts == 0) return;
  keys.u32("expert_count", c.experts);
  keys.u32("expert_used_count", c.top_k);
}

}  // namespace

Result<void> write_config_keys(const ArchitectureRow& row, const ModelConfig& c, GgufWriter& writer,
                               std::vector<std::string>& warnings) {
  TRY_VOID(check_expressible(row, c));
  Keys keys(writer, row.gguf);
  std::int64_t ctx = c.ctx;
  if (row.id == "gemma3_text") {
    if (c.final_softcap > 0) keys.f32("final_logit_softcapping", c.final_softcap);
    if (c.local_rope) keys.f32("rope.freq_base_swa", c.local_rope->base);
    std::vector<std::int32_t> pattern;
    std::int64_t window = 0;
    for (std::int64_t i = 0; i < c.layers; ++i) {
      window = std::max(window, c.window(i));
      pattern.push_back(c.window(i) > 0 ? 1 : 0);
    }
    if (window > 0) {
      keys.u32("attention.sliding_window", window);
      keys.u32s("attention.sliding_window_pattern", pattern);
    }
  } else {
    std::int64_t window = ctx;
    for (const auto w : c.windows)
      if (w > 0) window = std::min(window, w);
    if (window < ctx) {
      warnings.push_back(
          fmt::format("llama.cpp knows no sliding window for {}: context_length is set to the window, {} instead of {}",
                      row.gguf, window, ctx));
      ctx = window;
    }
  }
  keys.u32("context_length", ctx);
  keys.u32("embedding_length", c.hidden);
  keys.u32("block_count", c.layers);
  keys.u32("feed_forward_length", c.ffn);
  keys.u32("vocab_size", c.vocab);
  keys.f32("attention.layer_norm_rms_epsilon", c.norm_eps);
  keys.u32("attention.head_count", c.heads);
  if (c.kv_lora > 0) {
    keys.u32("attention.head_count_kv", 1);  // the absorbed form: all heads read one latent
    keys.u32("attention.key_length", c.kv_lora + c.qk_rope);
    keys.u32("attention.value_length", c.kv_lora);
    keys.u32("attention.key_length_mla", c.qk_nope + c.qk_rope);
    keys.u32("attention.value_length_mla", c.v_head);
    keys.u32("attention.kv_lora_rank", c.kv_lora);
    keys.u32("attention.q_lora_rank", c.q_lora);  // 0: none; llama.cpp wants the key for all but its own list of sizes
  } else {
    keys.u32("attention.head_count_kv", c.kv_heads);
    keys.u32("attention.key_length", c.head_dim);
    keys.u32("attention.value_length", c.head_dim);
  }
  write_experts(c, keys, warnings);
  return write_rope(c, keys, writer);
}

}  // namespace knapsack
