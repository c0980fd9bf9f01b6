// A Hugging Face folder's safetensors as a Checkpoint: float, block-scaled FP8, GPTQ, AWQ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/safetensors.h"
#include "import/checkpoint.h"
#include "import/quantized.h"

namespace knapsack {

std::unique_ptr<Checkpoint> hf_checkpoint(const std::shared_ptr<const SafetensorsFiles>& files, std::string path,
                                          const QuantConfig& quant, std::int64_t next_token_layers);

}  // namespace knapsack
