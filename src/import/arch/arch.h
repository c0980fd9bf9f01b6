// What an architecture is to the importer: how its config reads, which tensors it needs, how its graph is built.
// One file an architecture here; the list is arch.inc. Not for parts they share: spec.h, decoder.h, config_hf.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/config.h"
#include "import/config_gguf.h"
#include "import/config_hf.h"
#include "import/decoder.h"
#include "import/fields.h"
#include "import/spec.h"

namespace knapsack {

struct Architecture {
  // config.json (past its generic checks) -> config; oddities gets what is unusual.
  Result<void> (*from_hf)(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) = nullptr;
  // GGUF keys -> config; null where no GGUF of its own exists.
  Result<void> (*from_gguf)(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& oddities) = nullptr;
  void (*spec)(const ModelConfig& config, WeightSpec& spec) = nullptr;
  void (*build)(const ModelConfig& config, Decoder& decoder) = nullptr;
};

struct ArchitectureRow {
  std::string_view id;          // "qwen2"
  std::string_view hf_class;    // config.json: architectures
  std::string_view model_type;  // config.json: model_type
  std::string_view gguf;        // general.architecture
  const Architecture* arch;
};

std::span<const ArchitectureRow> all_architectures();
// Unknown names are `unsupported`, listing the known ones.
Result<const ArchitectureRow*> architecture_of_hf(const Fields& config);
Result<const ArchitectureRow*> architecture_of_gguf(std::string_view name, const std::string& origin);

// Fits the layers of every pre-norm architecture: attention or MLA, then MLP or mixture of experts.
void spec_pre_norm(const ModelConfig& config, const std::string& shared, WeightSpec& spec);
void build_pre_norm(const ModelConfig& config, const std::string& shared, Decoder& decoder);

}  // namespace knapsack
