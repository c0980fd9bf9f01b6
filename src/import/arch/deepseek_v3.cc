// DeepSeek-V3 (and R1): MLA; sigmoid scores with a correction bias that only chooses (noaux_tc), groups scored by
// their best two. Reference: transformers' modeling_deepseek_v3. Its GGUF is deepseek2, read by V2's file.
#include "import/arch/deepseek.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(deepseek_from_hf(config, out, oddities));
  TRY(out.rope.interleaved, config.boolean_or("rope_interleave", true));
  if (out.experts == 0) return {};
  TRY(const std::string method, config.text_or("topk_method", "noaux_tc"));
  TRY(const std::string scoring, config.text_or("scoring_func", "sigmoid"));
  if (method != "noaux_tc" || scoring != "sigmoid")
    return unsupported("{}: topk_method \"{}\" with scoring_func \"{}\": expected noaux_tc with sigmoid",
                       config.origin(), method, scoring);
  out.sigmoid_router = true;
  out.router_correction = true;
  out.group_score = 1;
  TRY(out.groups, config.integer_or("n_group", 1, out.experts, 1));
  TRY(out.top_groups, config.integer_or("topk_group", 1, out.groups, out.groups));
  return deepseek_check_groups(config, out, 2);
}

}  // namespace

extern const Architecture arch_deepseek_v3;
const Architecture arch_deepseek_v3{from_hf, nullptr, deepseek_spec, deepseek_build};

}  // namespace knapsack
