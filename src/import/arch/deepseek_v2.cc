// DeepSeek-V2 and V2-Lite: MLA with and without q_lora, softmax routing, greedy or limited to the best groups.
// Reference: transformers' modeling_deepseek_v2 (its complex RoPE is the interleaved one), with the mscale^2 softmax
// factor that DeepSeek's own code has.
#include "import/arch/deepseek.h"

namespace knapsack {
namespace {

Result<void> from_hf(const Fields& config, ModelConfig& out, std::vector<std::string>& oddities) {
  TRY_VOID(deepseek_from_hf(config, out, oddities));
  TRY(out.mlp_bias, config.boolean_or("mlp_bias", false));
  if (out.mlp_bias && out.experts > 0)
    return unsupported("{}: mlp_bias: experts with biases are not read here", config.origin());
  if (out.experts == 0) return {};
  if (out.norm_topk) {
    oddities.push_back(
        fmt::format("{}: norm_topk_prob is ignored for DeepSeek-V2, as in the reference", config.origin()));
    out.norm_topk = false;
  }
  TRY(const std::string method, config.text_or("topk_method", "greedy"));
  if (method == "greedy") return {};
  if (method != "group_limited_greedy")
    return unsupported("{}: topk_method \"{}\" is not known here; known: greedy, group_limited_greedy", config.origin(),
                       method);
  TRY(out.groups, config.integer("n_group", 1, out.experts));
  TRY(out.top_groups, config.integer("topk_group", 1, out.groups));
  return deepseek_check_groups(config, out, 1);
}

}  // namespace

extern const Architecture arch_deepseek_v2;
const Architecture arch_deepseek_v2{from_hf, deepseek_from_gguf, deepseek_spec, deepseek_build};

}  // namespace knapsack
