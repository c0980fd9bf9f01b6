#include "import/checkpoint_hf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

namespace knapsack {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool is(const TensorView* view, DType dtype, std::initializer_list<std::int64_t> shape) {
  return view != nullptr && view->dtype == dtype &&
         std::equal(view->shape.begin(), view->shape.end(), shape.begin(), shape.end());
}

// Larger models keep their language model under a prefix; both orders of it are met.
std::string canonical(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> prefixes{{
      {"language_model.model.", "model."},
      {"language_model.lm_head.", "lm_head."},
      {"model.language_model.", "model."},
  }};
  for (const auto& [from, to] : prefixes)
    if (name.starts_with(from)) return std::string(to) + name.substr(from.size());
  return name;
}

bool all_zero(const TensorView& tensor) {
  return std::all_of(tensor.data.begin(), tensor.data.end(), [](std::byte b) { return b == std::byte{0}; });
}

class HfCheckpoint final : public Checkpoint {
 public:
  HfCheckpoint(const std::shared_ptr<const SafetensorsFiles>& files, std::string path, const QuantConfig& quant,
               std::int64_t next_token_layers)
      : path_(std::move(path)), quant_(quant), next_token_layers_(next_token_layers) {
    for (const SafeTensor& tensor : files->tensors())
      views_.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data, files});
    for (const TensorView& view : views_) by_name_.emplace(canonical(view.name), &view);
  }

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::span<const TensorView> tensors() const override { return views_; }

  [[nodiscard]] std::vector<std::string> stored_names(const WeightEntry& entry) const override {
    const std::size_t star = entry.name.find('*');
    if (star == std::string::npos) return {entry.name};
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < entry.shape[0]; ++i)
      names.push_back(entry.name.substr(0, star) + std::to_string(i) + entry.name.substr(star + 1));
    return names;
  }

  [[nodiscard]] std::optional<LogicalTensor> find(const std::string& stored) const override {
    if (const TensorView* view = at(stored)) {
      if (view->dtype == DType::F8_E4M3) return fp8(stored, *view);
      return LogicalTensor{stored, view->shape, {view}, {}};
    }
    if (!stored.ends_with(".weight")) return std::nullopt;
    const std::string stem = stored.substr(0, stored.size() - 6);
    const TensorView* qweight = at(stem + "qweight");
    if (qweight == nullptr) return std::nullopt;
    return packed(stored, stem, *qweight);
  }

  [[nodiscard]] Result<LoadedWeight> read(const LogicalTensor& tensor, bool keep_order) const override {
    if (tensor.parts[0]->dtype == DType::F8_E4M3) return read_fp8(tensor, quant_);
    if (tensor.parts.size() < 3) return LoadedWeight{mapped_weight(*tensor.parts[0], tensor.shape), nullptr};
    if (quant_.method == QuantMethod::gptq) return read_gptq(tensor, quant_, path_, keep_order);
    return read_awq(tensor, quant_);
  }

  [[nodiscard]] std::string harmless(const TensorView& tensor, const ModelConfig& config) const override {
    const std::string name = canonical(tensor.name);
    if (name.ends_with("rotary_emb.inv_freq")) return "RoPE's frequencies are computed";
    for (const char* other : {"vision_tower.", "vision_model.", "multi_modal_projector.", "model.vision_tower.",
                              "model.multi_modal_projector.", "audio_tower."})
      if (name.starts_with(other)) return "only the language model is read";
    if (name == "lm_head.weight" && config.tied)
      return same_as_embeddings(tensor) ? "a copy of the embeddings, which are tied" : "";
    std::int64_t layer = -1;
    constexpr std::string_view layers = "model.layers.";
    if (name.starts_with(layers)) std::from_chars(name.data() + layers.size(), name.data() + name.size(), layer);
    if (layer >= config.layers && layer < config.layers + next_token_layers_)
      return "a layer for multi-token prediction, past the last one";
    if (quant_.method != QuantMethod::none && name.ends_with(".bias") && all_zero(tensor)) return "a bias of zeros";
    return {};
  }

 private:
  [[nodiscard]] const TensorView* at(const std::string& name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

  [[nodiscard]] bool same_as_embeddings(const TensorView& head) const {
    const TensorView* embeddings = at("model.embed_tokens.weight");
    return embeddings != nullptr && embeddings->dtype == head.dtype && embeddings->shape == head.shape &&
           std::equal(embeddings->data.begin(), embeddings->data.end(), head.data.begin(), head.data.end());
  }

  [[nodiscard]] LogicalTensor fp8(const std::string& stored, const TensorView& weight) const {
    LogicalTensor out{stored, weight.shape, {&weight}, {}};
    const TensorView* scale = at(stored + "_scale_inv");
    if (scale != nullptr) out.parts.push_back(scale);
    if (quant_.method != QuantMethod::fp8) {
      out.fault = "F8_E4M3, but config.json has no quantization_config with quant_method fp8";
    } else if (weight.shape.size() != 2) {
      out.fault = fmt::format("expected a matrix, found {}", shape_text(weight.shape));
    } else if (scale == nullptr) {
      out.fault = fmt::format("F8_E4M3 without its scales: {}_scale_inv is missing", stored);
    } else {
      const std::vector<std::int64_t> want{divided_up(weight.shape[0], quant_.block_rows),
                                           divided_up(weight.shape[1], quant_.block_cols)};
      const bool type = scale->dtype == DType::F32 || scale->dtype == DType::BF16 || scale->dtype == DType::F16;
      if (!type || scale->shape != want)
        out.fault = fmt::format("{}_scale_inv: expected F32 {}, found {} {}", stored, shape_text(want),
                                name(scale->dtype), shape_text(scale->shape));
    }
    return out;
  }

  // qweight, qzeros, scales, g_idx under one stem make one matrix [N, K].
  [[nodiscard]] LogicalTensor packed(const std::string& stored, const std::string& stem,
                                     const TensorView& qweight) const {
    LogicalTensor out{stored, {}, {&qweight}, {}};
    const TensorView* zeros = at(stem + "qzeros");
    const TensorView* scales = at(stem + "scales");
    const TensorView* g_idx = at(stem + "g_idx");
    for (const TensorView* part : {zeros, scales, g_idx})
      if (part != nullptr) out.parts.push_back(part);
    const bool gptq = quant_.method == QuantMethod::gptq;
    if (!gptq && quant_.method != QuantMethod::awq) {
      out.fault =
          "packed as GPTQ or AWQ, but neither config.json's quantization_config nor quantize_config.json says so";
      return out;
    }
    for (const auto& [part, what] : {std::pair(zeros, "qzeros"), std::pair(scales, "scales")})
      if (part == nullptr) {
        out.fault = fmt::format("{}{} is missing beside qweight", stem, what);
        return out;
      }
    if (qweight.dtype != DType::I32 || qweight.shape.size() != 2 || scales->shape.size() != 2) {
      out.fault = fmt::format("expected qweight I32 and scales as matrices, found {} {} and {}", name(qweight.dtype),
                              shape_text(qweight.shape), shape_text(scales->shape));
      return out;
    }
    const std::int64_t per_word = 32 / quant_.bits;
    const std::int64_t rows = gptq ? qweight.shape[1] : qweight.shape[1] * per_word;
    const std::int64_t cols = gptq ? qweight.shape[0] * per_word : qweight.shape[0];
    const std::int64_t groups = quant_.group > 0 ? divided_up(cols, quant_.group) : 1;
    out.shape = {rows, cols};
    const bool scale_type = scales->dtype == DType::F16 || scales->dtype == DType::BF16 || scales->dtype == DType::F32;
    if (rows % per_word != 0) {
      out.fault = fmt::format("expected a multiple of {} outputs, found {}", per_word, rows);
    } else if (!scale_type || scales->shape != std::vector<std::int64_t>{groups, rows}) {
      out.fault = fmt::format("{}scales: expected F16 [{}, {}], found {} {}", stem, groups, rows, name(scales->dtype),
                              shape_text(scales->shape));
    } else if (!is(zeros, DType::I32, {groups, rows / per_word})) {
      out.fault = fmt::format("{}qzeros: expected I32 [{}, {}], found {} {}", stem, groups, rows / per_word,
                              name(zeros->dtype), shape_text(zeros->shape));
    } else if (g_idx != nullptr && !is(g_idx, DType::I32, {cols})) {
      out.fault = fmt::format("{}g_idx: expected I32 [{}], found {} {}", stem, cols, name(g_idx->dtype),
                              shape_text(g_idx->shape));
    } else if (gptq && quant_.act_order && g_idx == nullptr) {
      out.fault = fmt::format("{}g_idx is missing, and desc_act is true", stem);
    }
    return out;
  }

  std::string path_;
  QuantConfig quant_;
  std::int64_t next_token_layers_;
  std::vector<TensorView> views_;
  std::unordered_map<std::string, const TensorView*> by_name_;
};

}  // namespace

std::unique_ptr<Checkpoint> hf_checkpoint(const std::shared_ptr<const SafetensorsFiles>& files, std::string path,
                                          const QuantConfig& quant, std::int64_t next_token_layers) {
  return std::make_unique<HfCheckpoint>(files, std::move(path), quant, next_token_layers);
}

}  // namespace knapsack
