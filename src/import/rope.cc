#include "import/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace knapsack {
namespace {

constexpr std::size_t max_factors = 8192;  // rotary / 2 at the largest head that is read
constexpr std::int64_t max_ctx = std::int64_t{1} << 30;

// 0 counts as absent, as in transformers' `get(...) or default`.
Result<double> number_or(const Fields& f, std::string_view key, double low, double high, double otherwise) {
  TRY(const double value, f.number_or(key, low, high, otherwise));
  return value == 0 ? otherwise : value;
}

Result<void> read_longrope(const Fields& scaling, const Fields& config, RopeConfig& rope) {
  rope.scaling = RopeScaling::longrope;
  TRY(rope.long_factor, scaling.floats("long_factor", max_factors));
  TRY(rope.short_factor, scaling.floats("short_factor", max_factors));
  const Fields& holder = config.has("original_max_position_embeddings") ? config : scaling;
  TRY(const auto ctx, config.integer("max_position_embeddings", 1, max_ctx));
  TRY(rope.original_ctx, holder.integer_or("original_max_position_embeddings", 1, max_ctx, 0));
  if (rope.original_ctx > 0) {
    rope.factor = static_cast<double>(ctx) / static_cast<double>(rope.original_ctx);
  } else {
    rope.original_ctx = ctx;
    TRY(rope.factor, scaling.number_or("factor", 1e-6, 1e6, 1));
  }
  return {};
}

Result<void> read_yarn(const Fields& scaling, const Fields& config, RopeConfig& rope) {
  rope.scaling = RopeScaling::yarn;
  TRY(rope.factor, scaling.number("factor", 1e-6, 1e6));
  TRY(rope.original_ctx, scaling.integer_or("original_max_position_embeddings", 0, max_ctx, 0));
  if (rope.original_ctx == 0) {
    TRY(rope.original_ctx, config.integer("max_position_embeddings", 1, max_ctx));
  }
  TRY(rope.beta_fast, number_or(scaling, "beta_fast", 0, 1e6, 32));
  TRY(rope.beta_slow, number_or(scaling, "beta_slow", 0, 1e6, 1));
  TRY(rope.mscale, scaling.number_or("mscale", 0, 1e3, 0));
  TRY(rope.mscale_all_dim, scaling.number_or("mscale_all_dim", 0, 1e3, 0));
  TRY(rope.truncate, scaling.boolean_or("truncate", true));
  return {};
}

Result<void> read_llama3(const Fields& scaling, RopeConfig& rope) {
  rope.scaling = RopeScaling::llama3;
  TRY(rope.factor, scaling.number("factor", 1e-6, 1e6));
  TRY(rope.low_freq_factor, scaling.number("low_freq_factor", 1e-6, 1e6));
  TRY(rope.high_freq_factor, scaling.number("high_freq_factor", 1e-6, 1e6));
  TRY(rope.original_ctx, scaling.integer("original_max_position_embeddings", 1, max_ctx));
  if (rope.high_freq_factor <= rope.low_freq_factor)
    return scaling.wrong("high_freq_factor", fmt::format("more than low_freq_factor ({:g})", rope.low_freq_factor));
  return {};
}

// base^(2i/rotary). The reference computes its tables in float32, step by step, and so do they here: at large
// positions a more exact frequency would be another model.
float power(double base, std::size_t i, std::int64_t rotary) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
  return static_cast<float>(std::pow(static_cast<double>(static_cast<float>(base)), static_cast<double>(exponent)));
}

// How far YaRN's correction reaches: the dimension that turns `rotations` times within the original context.
double correction_dim(double rotations, double dims, double base, double ctx) {
  return dims * std::log(ctx / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
}

void apply_yarn(const RopeConfig& rope, std::int64_t rotary, std::vector<float>& inv_freq) {
  const auto dims = static_cast<double>(rotary);
  const auto ctx = static_cast<double>(rope.original_ctx);
  double low = correction_dim(rope.beta_fast, dims, rope.base, ctx);
  double high = correction_dim(rope.beta_slow, dims, rope.base, ctx);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;  // as the reference does, against the division by zero
  const auto factor = static_cast<float>(rope.factor);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const float at = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float keep = 1 - std::clamp(at, 0.0F, 1.0F);
    const float interpolated = 1 / (factor * power(rope.base, i, rotary));
    inv_freq[i] = interpolated * (1 - keep) + inv_freq[i] * keep;
  }
}

void apply_llama3(const RopeConfig& rope, std::vector<float>& inv_freq) {
  const auto ctx = static_cast<double>(rope.original_ctx);
  const auto longest = static_cast<float>(ctx / rope.low_freq_factor);
  const auto shortest = static_cast<float>(ctx / rope.high_freq_factor);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto range = static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  for (float& f : inv_freq) {
    const float wavelength = 1 / f * static_cast<float>(2 * std::numbers::pi);
    if (wavelength > longest) {
      f /= factor;
    } else if (wavelength >= shortest) {
      const float smooth = (1 / wavelength * static_cast<float>(ctx) - low) / range;
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

float cos_sin_scale(const RopeConfig& rope) {
  if (rope.attention_factor > 0) return static_cast<float>(rope.attention_factor);
  if (rope.scaling == RopeScaling::yarn) {
    if (rope.mscale > 0 && rope.mscale_all_dim > 0)
      return static_cast<float>(yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim));
    return static_cast<float>(yarn_mscale(rope.factor, 1));
  }
  if (rope.scaling == RopeScaling::longrope && rope.factor > 1 && rope.original_ctx > 1)
    return static_cast<float>(std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_ctx))));
  return 1;
}

}  // namespace

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0; }

std::int64_t ModelConfig::rotary() const {
  const std::int64_t dims = kv_lora > 0 ? qk_rope : head_dim;
  return static_cast<std::int64_t>(static_cast<double>(dims) * rope.partial);
}

Result<RopeConfig> rope_from_object(const Fields& scaling, const Fields& config, double base,
                                    std::vector<std::string>& oddities) {
  RopeConfig rope;
  TRY(rope.base, scaling.number_or("rope_theta", 1, 1e12, base));
  TRY(rope.partial, config.number_or("partial_rotary_factor", 1e-3, 1, 1));
  TRY(rope.partial, scaling.number_or("partial_rotary_factor", 1e-3, 1, rope.partial));
  TRY(const std::string older, scaling.text_or("type", "default"));
  TRY(std::string kind, scaling.text_or("rope_type", older));
  // Phi-3's configs call LongRoPE "su", and for a while "yarn"; only LongRoPE has lists of factors.
  if (kind == "su" || (kind == "yarn" && scaling.has("long_factor"))) kind = "longrope";
  if (kind == "linear") {
    rope.scaling = RopeScaling::linear;
    TRY(rope.factor, scaling.number("factor", 1e-6, 1e6));
  } else if (kind == "llama3") {
    TRY_VOID(read_llama3(scaling, rope));
  } else if (kind == "yarn") {
    TRY_VOID(read_yarn(scaling, config, rope));
  } else if (kind == "longrope") {
    TRY_VOID(read_longrope(scaling, config, rope));
  } else if (kind == "dynamic") {
    TRY(const double factor, scaling.number("factor", 1e-6, 1e6));
    oddities.push_back(
        fmt::format("{}: dynamic RoPE scaling (factor {:g}) acts only beyond max_position_embeddings; within it RoPE "
                    "is the default",
                    config.origin(), factor));
  } else if (kind != "default") {
    return unsupported(
        "{}: RoPE scaling \"{}\" is not known here; known: default, linear, llama3, yarn, longrope, dynamic",
        scaling.origin(), kind);
  }
  TRY(rope.attention_factor, scaling.number_or("attention_factor", 0, 1e3, 0));
  return rope;
}

Result<RopeConfig> rope_from_hf(const Fields& config, double default_base, std::vector<std::string>& oddities) {
  TRY(const double base, config.number_or("rope_theta", 1, 1e12, default_base));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.has(key)) continue;
    TRY(const Fields scaling, config.object(key));
    return rope_from_object(scaling, config, base, oddities);
  }
  RopeConfig rope;
  rope.base = base;
  TRY(rope.partial, config.number_or("partial_rotary_factor", 1e-3, 1, 1));
  return rope;
}

RopeTable rope_table(const RopeConfig& rope, std::int64_t rotary, std::int64_t ctx) {
  RopeTable table;
  std::vector<float>& inv_freq = table.inv_freq;
  const auto count = static_cast<std::size_t>(rotary / 2);
  for (std::size_t i = 0; i < count; ++i) inv_freq.push_back(1 / power(rope.base, i, rotary));
  switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      for (float& f : inv_freq) f /= static_cast<float>(rope.factor);
      break;
    case RopeScaling::llama3:
      apply_llama3(rope, inv_freq);
      break;
    case RopeScaling::yarn:
      apply_yarn(rope, rotary, inv_freq);
      break;
    case RopeScaling::longrope: {
      const auto& factors = ctx > rope.original_ctx ? rope.long_factor : rope.short_factor;
      for (std::size_t i = 0; i < count; ++i) inv_freq[i] = 1 / (factors[i] * power(rope.base, i, rotary));
      break;
    }
  }
  for (std::size_t i = 0; i < count && !rope.factors.empty(); ++i) inv_freq[i] /= rope.factors[i];
  table.scale = cos_sin_scale(rope);
  return table;
}

}  // namespace knapsack
