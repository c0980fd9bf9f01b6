#include "import/checkpoint_gguf.h"

#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>

namespace knapsack {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;  // Hugging Face's, GGUF's; both without the suffix

constexpr std::array global_names{
    NamePair{"model.embed_tokens", "token_embd"},
    NamePair{"model.norm", "output_norm"},
    NamePair{"lm_head", "output"},
};

constexpr std::array layer_names{
    NamePair{"input_layernorm", "attn_norm"},
    NamePair{"post_attention_layernorm", "ffn_norm"},
    NamePair{"self_attn.q_proj", "attn_q"},
    NamePair{"self_attn.k_proj", "attn_k"},
    NamePair{"self_attn.v_proj", "attn_v"},
    NamePair{"self_attn.o_proj", "attn_output"},
    NamePair{"self_attn.qkv_proj", "attn_qkv"},
    NamePair{"self_attn.q_norm", "attn_q_norm"},
    NamePair{"self_attn.k_norm", "attn_k_norm"},
    NamePair{"self_attn.q_a_proj", "attn_q_a"},
    NamePair{"self_attn.q_a_layernorm", "attn_q_a_norm"},
    NamePair{"self_attn.q_b_proj", "attn_q_b"},
    NamePair{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    NamePair{"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    NamePair{"self_attn.kv_b_proj", "attn_kv_b"},
    NamePair{"self_attn.k_b_proj", "attn_k_b"},
    NamePair{"self_attn.v_b_proj", "attn_v_b"},
    NamePair{"mlp.gate_proj", "ffn_gate"},
    NamePair{"mlp.up_proj", "ffn_up"},
    NamePair{"mlp.gate_up_proj", "ffn_up"},  // Phi-3: both halves under one name
    NamePair{"mlp.down_proj", "ffn_down"},
    NamePair{"mlp.gate", "ffn_gate_inp"},
    NamePair{"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    NamePair{"mlp.experts.*.up_proj", "ffn_up_exps"},
    NamePair{"mlp.experts.*.down_proj", "ffn_down_exps"},
    NamePair{"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    NamePair{"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    NamePair{"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    NamePair{"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    NamePair{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    NamePair{"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    NamePair{"mlp.shared_experts.down_proj", "ffn_down_shexp"},
};

// Gemma norms the outputs of both blocks too, so "post_attention" means another place there.
constexpr std::array gemma_names{
    NamePair{"post_attention_layernorm", "post_attention_norm"},
    NamePair{"pre_feedforward_layernorm", "ffn_norm"},
    NamePair{"post_feedforward_layernorm", "post_ffw_norm"},
};

template <std::size_t N>
std::string_view look_up(const std::array<NamePair, N>& names, std::string_view hf) {
  for (const auto& [from, to] : names)
    if (from == hf) return to;
  return {};
}

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(std::shared_ptr<const GgufFile> file, std::string path, std::string_view architecture)
      : file_(std::move(file)), path_(std::move(path)), architecture_(architecture) {
    for (const GgufTensor& tensor : file_->tensors())
      views_.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data, file_});
    for (const TensorView& view : views_) by_name_.emplace(view.name, &view);
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::span<const TensorView> tensors() const override { return views_; }
  [[nodiscard]] std::vector<std::string> stored_names(const WeightEntry& entry) const override {
    return {gguf_tensor_name(entry.name, architecture_)};
  }

  [[nodiscard]] std::optional<LogicalTensor> find(const std::string& stored) const override {
    const auto it = by_name_.find(stored);
    if (it == by_name_.end()) return std::nullopt;
    return LogicalTensor{stored, it->second->shape, {it->second}, {}};
  }

  [[nodiscard]] Result<LoadedWeight> read(const LogicalTensor& tensor, bool /*keep_order*/) const override {
    return LoadedWeight{mapped_weight(*tensor.parts[0], tensor.shape), nullptr};
  }

  [[nodiscard]] bool read_with_config(const TensorView& tensor) const override {
    return tensor.name == "rope_freqs.weight" || tensor.name == "rope_factors_long.weight" ||
           tensor.name == "rope_factors_short.weight";
  }

  [[nodiscard]] std::string harmless(const TensorView& tensor, const ModelConfig& config) const override {
    const std::string_view name = tensor.name;
    if (name.ends_with(".attn_rot_embd") || name.ends_with(".attn_rot_embd.weight") ||
        name.ends_with("rotary_emb.inv_freq"))
      return "RoPE's frequencies are computed";
    std::int64_t layer = -1;
    if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
    if (layer >= config.layers && layer < config.layers + 4 && config.kv_lora > 0)
      return "a layer for multi-token prediction, past the last one";
    return {};
  }

 private:
  std::shared_ptr<const GgufFile> file_;
  std::string path_;
  std::string architecture_;
  std::vector<TensorView> views_;
  std::unordered_map<std::string_view, const TensorView*> by_name_;
};

}  // namespace

std::string gguf_tensor_name(std::string_view hf, std::string_view architecture) {
  const std::size_t dot = hf.rfind('.');
  const std::string_view suffix = hf.substr(dot);
  const std::string_view stem = hf.substr(0, dot);
  if (const auto name = look_up(global_names, stem); !name.empty()) return std::string(name) + std::string(suffix);
  constexpr std::string_view prefix = "model.layers.";
  if (!stem.starts_with(prefix)) return {};
  const std::size_t end = stem.find('.', prefix.size());
  if (end == std::string_view::npos) return {};
  const std::string_view layer = stem.substr(prefix.size(), end - prefix.size());
  const std::string_view rest = stem.substr(end + 1);
  if (rest == "mlp.gate" && suffix == ".e_score_correction_bias") return fmt::format("blk.{}.exp_probs_b.bias", layer);
  std::string_view name;
  if (architecture == "gemma3_text") name = look_up(gemma_names, rest);
  if (name.empty()) name = look_up(layer_names, rest);
  if (name.empty()) return {};
  return fmt::format("blk.{}.{}{}", layer, name, suffix);
}

std::unique_ptr<Checkpoint> gguf_checkpoint(std::shared_ptr<const GgufFile> file, std::string path,
                                            std::string_view architecture) {
  return std::make_unique<GgufCheckpoint>(std::move(file), std::move(path), architecture);
}

}  // namespace knapsack
