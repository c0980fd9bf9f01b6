#include "import/arch/arch.h"

#include <array>

namespace knapsack {

#define KNAP_ARCH(id, hf_class, model_type, gguf) extern const Architecture arch_##id;
#include "import/arch/arch.inc"
#undef KNAP_ARCH

std::span<const ArchitectureRow> all_architectures() {
  static const std::array rows{
#define KNAP_ARCH(id, hf_class, model_type, gguf) ArchitectureRow{#id, hf_class, model_type, gguf, &arch_##id},
#include "import/arch/arch.inc"
#undef KNAP_ARCH
  };
  return rows;
}

Result<const ArchitectureRow*> architecture_of_hf(const Fields& config) {
  std::string found;
  if (config.has("architectures")) {
    TRY(const auto classes, config.texts("architectures", 16));
    for (const std::string& name : classes) {
      for (const ArchitectureRow& row : all_architectures())
        if (row.hf_class == name) return &row;
      found += (found.empty() ? "" : ", ") + name;
    }
  }
  if (found.empty()) {  // no class named: the model type must do
    TRY(const std::string type, config.text("model_type"));
    for (const ArchitectureRow& row : all_architectures())
      if (row.model_type == type) return &row;
    found = type;
  }
  std::string known;
  for (const ArchitectureRow& row : all_architectures())
    known += (known.empty() ? "" : ", ") + std::string(row.hf_class);
  return unsupported("{}: architecture \"{}\" is not known here; known: {}", config.origin(), found, known);
}

Result<const ArchitectureRow*> architecture_of_gguf(std::string_view name, const std::string& origin) {
  std::string known;
  for (const ArchitectureRow& row : all_architectures()) {
    if (row.arch->from_gguf == nullptr) continue;
    if (row.gguf == name) return &row;
    known += (known.empty() ? "" : ", ") + std::string(row.gguf);
  }
  return unsupported("{}: general.architecture \"{}\" is not known here; known: {}", origin, name, known);
}

void spec_pre_norm(const ModelConfig& c, const std::string& shared, WeightSpec& spec) {
  spec_ends(c, spec);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string p = layer_prefix(i);
    spec.vector(p + "input_layernorm.weight", c.hidden);
    c.kv_lora > 0 ? spec_mla(c, i, spec) : spec_attention(c, i, spec);
    spec.vector(p + "post_attention_layernorm.weight", c.hidden);
    c.moe(i) ? spec_moe(c, i, shared, spec) : spec_mlp(c, p + "mlp.", c.ffn, spec);
  }
}

void build_pre_norm(const ModelConfig& c, const std::string& shared, Decoder& decoder) {
  ValueId x = decoder.embed();
  for (std::int64_t i = 0; i < c.layers; ++i) x = decoder.pre_norm_layer(i, x, shared);
  decoder.finish(x);
}

}  // namespace knapsack
