// What DeepSeek V2 and V3 share: the MLA sizes, which layers have experts, how their GGUF (deepseek2) reads.
#pragma once

#include "import/arch/arch.h"

namespace knapsack {

// Sizes of MLA, experts and dense layers, RoPE and the softmax scale. Routing is each version's own.
Result<void> deepseek_from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities);
// That the groups of experts, already read, divide the experts into `least` or more each, and that those chosen hold
// num_experts_per_tok.
Result<void> deepseek_check_groups(const Fields& config, const ModelConfig& c, std::int64_t least);
Result<void> deepseek_from_gguf(const GgufKeys& keys, ModelConfig& out, std::vector<std::string>& oddities);
void deepseek_spec(const ModelConfig& config, WeightSpec& spec);
void deepseek_build(const ModelConfig& config, Decoder& decoder);

}  // namespace knapsack
