#include "import/config_gguf.h"

#include <cmath>
#include <cstring>

#include "import/limits.h"

namespace knapsack {
namespace {

Result<std::vector<float>> factors(const GgufKeys& keys, std::string_view name, std::int64_t count) {
  const GgufTensor* tensor = keys.file().tensor(name);
  if (tensor == nullptr) return std::vector<float>{};
  std::vector<float> values(static_cast<std::size_t>(count));
  if (tensor->dtype != DType::F32 || tensor->shape != std::vector<std::int64_t>{count})
    return bad_input("{}: {}: expected F32 [{}] (half the rotated width)", keys.path(), name, count);
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  for (const float v : values)
    if (!(v > 0 && v < 1e9F)) return bad_input("{}: {}: expected positive factors, found {}", keys.path(), name, v);
  return values;
}

Result<void> read_rope(const GgufKeys& keys, ModelConfig& out) {
  RopeConfig& rope = out.rope;
  const std::int64_t dims = out.kv_lora > 0 ? out.qk_rope : out.head_dim;
  TRY(const auto rotary, keys.integer_or("rope.dimension_count", 2, limits::head_dim, dims));
  if (rotary > dims || rotary % 2 != 0)
    return bad_input("{}: {}: expected an even number up to the head size {}, found {}", keys.path(),
                     keys.full("rope.dimension_count"), dims, rotary);
  rope.partial = static_cast<double>(rotary) / static_cast<double>(dims);
  TRY(rope.base, keys.number_or("rope.freq_base", 1, 1e12, 10000));
  TRY(const std::string kind, keys.text_or("rope.scaling.type", "linear"));
  TRY(const double older, keys.number_or("rope.scale_linear", 0, 1e6, 0));
  TRY(rope.factor, keys.number_or("rope.scaling.factor", 0, 1e6, older));
  TRY(rope.original_ctx, keys.integer_or("rope.scaling.original_context_length", 1, limits::ctx, out.ctx));
  TRY(const double attn_factor, keys.number_or("rope.scaling.attn_factor", 0, 1e3, 1));
  if (rope.factor == 0) rope.factor = 1;
  if (kind == "linear") {
    rope.scaling = rope.factor == 1 ? RopeScaling::none : RopeScaling::linear;
    rope.attention_factor = attn_factor == 1 ? 0 : attn_factor;
  } else if (kind == "yarn") {
    rope.scaling = RopeScaling::yarn;
    TRY(rope.beta_fast, keys.number_or("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32));
    TRY(rope.beta_slow, keys.number_or("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1));
    TRY(const double log_multiplier, keys.number_or("rope.scaling.yarn_log_multiplier", 0, 1e3, 0));
    // The key holds 0.1 x mscale_all_dim; the factor on cos and sin then cancels to 1 (mscale is the same there).
    rope.mscale = rope.mscale_all_dim = log_multiplier * 10;
    if (attn_factor != 1) {
      const double plain = rope.mscale > 0 ? 1 : (rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1);
      rope.attention_factor = plain * attn_factor;
    }
  } else if (kind == "longrope" || keys.file().tensor("rope_factors_long.weight") != nullptr) {
    rope.scaling = RopeScaling::longrope;
    rope.attention_factor = attn_factor;
  } else if (kind != "none") {
    return unsupported("{}: {}: RoPE scaling \"{}\" is not known here; known: none, linear, yarn, longrope",
                       keys.path(), keys.full("rope.scaling.type"), kind);
  }
  TRY(rope.factors, factors(keys, "rope_freqs.weight", rotary / 2));
  TRY(rope.long_factor, factors(keys, "rope_factors_long.weight", rotary / 2));
  TRY(rope.short_factor, factors(keys, "rope_factors_short.weight", rotary / 2));
  if (!rope.long_factor.empty() && rope.scaling == RopeScaling::none) {
    rope.scaling = RopeScaling::longrope;  // older Phi-3 files name no scaling type
    rope.attention_factor = attn_factor;
  }
  if (rope.scaling == RopeScaling::longrope && (rope.long_factor.empty() || rope.short_factor.empty()))
    return bad_input("{}: LongRoPE needs the tensors rope_factors_long.weight and rope_factors_short.weight",
                     keys.path());
  return {};
}

}  // namespace

Result<std::int64_t> GgufKeys::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  TRY(const auto value, file_->integer(full(key)));
  if (value < low || value > high)
    return bad_input("{}: {}: expected an integer from {} to {}, found {}", path_, full(key), low, high, value);
  return value;
}

Result<std::int64_t> GgufKeys::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                          std::int64_t otherwise) const {
  if (!has(key)) return otherwise;
  return integer(key, low, high);
}

Result<double> GgufKeys::number(std::string_view key, double low, double high) const {
  TRY(const auto value, file_->number(full(key)));
  if (!(value >= low && value <= high))
    return bad_input("{}: {}: expected a number from {:g} to {:g}, found {:g}", path_, full(key), low, high, value);
  return value;
}

Result<double> GgufKeys::number_or(std::string_view key, double low, double high, double otherwise) const {
  if (!has(key)) return otherwise;
  return number(key, low, high);
}

Result<bool> GgufKeys::boolean_or(std::string_view key, bool otherwise) const {
  const GgufValue* value = file_->find(full(key));
  if (value == nullptr) return otherwise;
  if (const bool* b = std::get_if<bool>(value)) return *b;
  return bad_input("{}: {}: expected a boolean", path_, full(key));
}

Result<std::string> GgufKeys::text_or(std::string_view key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  TRY(const auto text, file_->string(full(key)));
  return std::string(text);
}

bool GgufKeys::is_array(std::string_view key) const {
  const GgufValue* value = file_->find(full(key));
  return value != nullptr && std::holds_alternative<GgufArray>(*value);
}

Result<std::vector<std::int64_t>> GgufKeys::array(std::string_view key, std::int64_t count) const {
  const GgufValue* value = file_->find(full(key));
  const GgufArray* list = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  // GGUF value types with their sizes: uint8 0, int8 1, uint16 2, int16 3, uint32 4, int32 5, bool 7.
  const std::size_t size = list == nullptr                      ? 0
                           : list->type <= 1 || list->type == 7 ? 1
                           : list->type <= 3                    ? 2
                           : list->type == 4 || list->type == 5 ? 4
                                                                : 0;
  if (size == 0 || list->count != count)
    return bad_input("{}: {}: expected an array of {} integers or booleans", path_, full(key), count);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t v = 0;  // GGUF is little-endian, like every CPU this runs on
    std::memcpy(&v, list->data.data() + static_cast<std::size_t>(i) * size, size);
    out.push_back(v);
  }
  return out;
}

Result<std::int64_t> GgufKeys::uniform(std::string_view key, std::int64_t low, std::int64_t high) const {
  if (!is_array(key)) return integer(key, low, high);
  const auto& list = std::get<GgufArray>(*file_->find(full(key)));
  if (list.count < 1 || list.count > limits::layers)
    return bad_input("{}: {}: expected one entry a layer, found {}", path_, full(key), list.count);
  TRY(const auto values, array(key, list.count));
  for (const auto v : values)
    if (v != values[0])
      return unsupported("{}: {}: differs from layer to layer ({} and {}), which no architecture here has", path_,
                         full(key), values[0], v);
  if (values[0] < low || values[0] > high)
    return bad_input("{}: {}: expected integers from {} to {}, found {}", path_, full(key), low, high, values[0]);
  return values[0];
}

Result<void> gguf_decoder(const GgufKeys& keys, ModelConfig& out) {
  const GgufFile& file = keys.file();
  TRY(out.hidden, keys.integer("embedding_length", 1, limits::hidden));
  TRY(out.layers, keys.integer("block_count", 1, limits::layers));
  TRY(out.ctx, keys.integer("context_length", 1, limits::ctx));
  TRY(out.heads, keys.uniform("attention.head_count", 1, limits::heads));
  out.kv_heads = out.heads;
  if (keys.has("attention.head_count_kv")) {
    TRY(out.kv_heads, keys.uniform("attention.head_count_kv", 1, limits::heads));
  }
  if (out.kv_lora == 0) {
    if (out.hidden % out.heads != 0 && !keys.has("attention.key_length"))
      return bad_input("{}: {} {} is not a multiple of the head count {}, and there is no {}", keys.path(),
                       keys.full("embedding_length"), out.hidden, out.heads, keys.full("attention.key_length"));
    TRY(out.head_dim, keys.integer_or("attention.key_length", 2, limits::head_dim, out.hidden / out.heads));
    TRY(const auto value_dim, keys.integer_or("attention.value_length", 1, limits::head_dim, out.hidden / out.heads));
    if (value_dim != out.head_dim)
      return unsupported("{}: {} {} unlike the key length {}", keys.path(), keys.full("attention.value_length"),
                         value_dim, out.head_dim);
    if (out.heads % out.kv_heads != 0)
      return bad_input("{}: {}: expected a multiple of the KV head count {}, found {}", keys.path(),
                       keys.full("attention.head_count"), out.kv_heads, out.heads);
    if (out.heads * out.head_dim > limits::projection)
      return bad_input("{}: head count x head size: expected at most {}, found {}", keys.path(), limits::projection,
                       out.heads * out.head_dim);
    out.attention_scale = 1 / std::sqrt(static_cast<double>(out.head_dim));
  }
  TRY(out.ffn, keys.uniform("feed_forward_length", keys.has("expert_count") ? 0 : 1, limits::ffn));
  TRY(out.norm_eps, keys.number("attention.layer_norm_rms_epsilon", 0, 1));
  const GgufTensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    return bad_input("{}: the tensor token_embd.weight [vocabulary, {}] is missing or not a matrix", keys.path(),
                     out.hidden);
  out.vocab = embedding->shape[0];
  if (out.vocab < 1 || out.vocab > limits::vocab)
    return bad_input("{}: token_embd.weight: expected 1 to {} rows, found {}", keys.path(), limits::vocab, out.vocab);
  out.tied = file.tensor("output.weight") == nullptr;
  const auto present = [&](std::string_view name) { return file.tensor(name) != nullptr; };
  out.q_bias = present("blk.0.attn_q.bias");
  out.k_bias = present("blk.0.attn_k.bias");
  out.v_bias = present("blk.0.attn_v.bias");
  out.o_bias = present("blk.0.attn_output.bias");
  out.mlp_bias = present("blk.0.ffn_down.bias");
  return read_rope(keys, out);
}

Result<void> gguf_windows(const GgufKeys& keys, const std::vector<bool>& slides, ModelConfig& out) {
  TRY(const auto window, keys.integer_or("attention.sliding_window", 0, limits::ctx, 0));
  if (window == 0 || (slides.empty() && window >= out.ctx)) return {};
  for (std::int64_t i = 0; i < out.layers; ++i)
    out.windows.push_back(slides.empty() || slides[static_cast<std::size_t>(i)] ? window : 0);
  return {};
}

Result<void> gguf_experts(const GgufKeys& keys, ModelConfig& out) {
  TRY(out.experts, keys.integer("expert_count", 1, limits::experts));
  TRY(out.top_k, keys.integer("expert_used_count", 1, out.experts));
  TRY(out.expert_ffn, keys.integer_or("expert_feed_forward_length", 1, limits::ffn, out.ffn));
  if (out.expert_ffn < 1)
    return bad_input("{}: {}: expected an integer from 1 to {}, found nothing", keys.path(),
                     keys.full("expert_feed_forward_length"), limits::ffn);
  for (std::int64_t i = 0; i < out.layers; ++i)
    out.moe_layers.push_back(keys.file().tensor(fmt::format("blk.{}.ffn_gate.weight", i)) == nullptr);
  return {};
}

}  // namespace knapsack
