// The two halves of a GGUF's metadata that convert.cc asks for: what the config says, what the tokenizer says.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "files/gguf_writer.h"
#include "import/arch/arch.h"
#include "import/import.h"

namespace knapsack {

// ARCH.* keys, and the tensors that carry RoPE's factors.
Result<void> write_config_keys(const ArchitectureRow& row, const ModelConfig& config, GgufWriter& writer,
                               std::vector<std::string>& warnings);

// tokenizer.* keys from tokenizer.json; a model without one is written as llama.cpp's "no_vocab".
Result<void> write_tokenizer_keys(const Imported& model, GgufWriter& writer, std::vector<std::string>& warnings);

}  // namespace knapsack
