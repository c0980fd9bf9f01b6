#include "import/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "files/gguf_writer.h"
#include "import/assemble.h"
#include "import/checkpoint_gguf.h"
#include "import/convert_parts.h"

namespace knapsack {
namespace {

constexpr std::size_t slice = std::size_t{1} << 16;  // elements encoded at a time

void encode(std::span<const float> values, DType type, std::byte* out) {
  const FormatInfo& f = format(type);
  for (std::size_t i = 0; i < values.size(); i += slice) {
    const auto count = std::min(slice, values.size() - i);
    f.encode(values.data() + i, out + i * static_cast<std::size_t>(f.block_bytes), static_cast<std::int64_t>(count));
  }
}

// Rows of each head from two halves to interleaved pairs: how GGUF's llama wants Q and K.
std::vector<float> interleaved_heads(const std::vector<float>& values, std::int64_t heads, std::int64_t cols) {
  const std::int64_t half = static_cast<std::int64_t>(values.size()) / cols / heads / 2;
  std::vector<float> out(values.size());
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t side = 0; side < 2; ++side)
      for (std::int64_t j = 0; j < half; ++j)
        std::copy_n(values.begin() + ((h * 2 + side) * half + j) * cols, cols,
                    out.begin() + ((h * half + j) * 2 + side) * cols);
  return out;
}

// Columns back in their own order, where act-order GPTQ sorted them.
std::vector<float> in_order(std::vector<float> values, const LoadedWeight& loaded) {
  if (loaded.order == nullptr) return values;
  const std::int64_t cols = loaded.weight->cols();
  std::vector<float> out(values.size());
  const std::byte* order = loaded.order->slabs[0];
  for (std::int64_t c = 0; c < cols; ++c) {
    std::int32_t to = 0;
    std::memcpy(&to, order + c * 4, sizeof to);
    for (std::int64_t r = 0; r < loaded.weight->shape[0]; ++r)
      out[static_cast<std::size_t>(r * cols + to)] = values[static_cast<std::size_t>(r * cols + c)];
  }
  return out;
}

class Converter {
 public:
  Converter(const Opened& opened, const Weights& weights, DType type, GgufWriter& writer)
      : opened_(opened), config_(opened.out.config), weights_(weights), type_(type), writer_(writer) {}

  void add(const WeightEntry& entry) {
    const LoadedWeight& loaded = weights_.at(entry.name);
    if (loaded.weight == nullptr) return;
    if (entry.name.ends_with("kv_b_proj.weight")) return add_kv_b(entry.name, loaded);
    const std::string name = gguf_tensor_name(entry.name, opened_.row->id);
    std::vector<std::int64_t> shape = loaded.weight->shape;
    if (shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());  // a gate of one row is a vector there
    put(name, shape, [this, loaded, full = entry.name] { return values_of(full, loaded); });
  }

 private:
  using Values = std::function<std::vector<float>()>;

  void put(const std::string& name, const std::vector<std::int64_t>& shape, Values values) {
    // llama.cpp computes with norms, biases and the router in F32.
    const bool plain = shape.size() == 1 || name.find("ffn_gate_inp") != std::string::npos;
    const DType dtype = plain ? DType::F32 : type_;
    writer_.add_tensor(name, dtype, shape,
                       [dtype, values = std::move(values)](std::span<std::byte> out) -> Result<void> {
                         encode(values(), dtype, out.data());
                         return {};
                       });
  }

  [[nodiscard]] std::vector<float> values_of(const std::string& name, const LoadedWeight& loaded) const {
    std::vector<float> values = in_order(decoded(*loaded.weight), loaded);
    const bool norm = name.ends_with("norm.weight");
    if (norm && config_.norm_offset != 0)
      for (float& v : values) v += static_cast<float>(config_.norm_offset);
    // GGUF's gemma3 scales attention by the head size; where the model has a scale of its own, Q's norm carries it.
    if (opened_.row->id == "gemma3_text" && name.ends_with("q_norm.weight")) {
      const std::int64_t size = config_.layers == 62 ? config_.hidden / config_.heads : config_.head_dim;
      const double ratio = config_.attention_scale * std::sqrt(static_cast<double>(size));
      for (float& v : values) v = static_cast<float>(v * ratio);
    }
    if (opened_.row->gguf == "llama") {
      const std::int64_t cols = name.ends_with(".bias") ? 1 : loaded.weight->cols();
      if (name.find("self_attn.q_proj.") != std::string::npos) return interleaved_heads(values, config_.heads, cols);
      if (name.find("self_attn.k_proj.") != std::string::npos) return interleaved_heads(values, config_.kv_heads, cols);
    }
    return values;
  }

  // kv_b_proj holds W_UK and W_UV of each head; llama.cpp wants the first transposed and each on its own.
  void add_kv_b(const std::string& name, const LoadedWeight& loaded) {
    const std::string prefix = name.substr(0, name.size() - std::string_view("kv_b_proj.weight").size());
    const std::int64_t nope = config_.qk_nope;
    const std::int64_t v = config_.v_head;
    const std::int64_t rank = config_.kv_lora;
    const std::int64_t heads = config_.heads;
    put(gguf_tensor_name(prefix + "k_b_proj.weight", opened_.row->id), {heads, rank, nope}, [=] {
      const auto values = decoded(*loaded.weight);
      std::vector<float> out(static_cast<std::size_t>(heads * rank * nope));
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < nope; ++i)
          for (std::int64_t r = 0; r < rank; ++r)
            out[static_cast<std::size_t>((h * rank + r) * nope + i)] =
                values[static_cast<std::size_t>((h * (nope + v) + i) * rank + r)];
      return out;
    });
    put(gguf_tensor_name(prefix + "v_b_proj.weight", opened_.row->id), {heads, v, rank}, [=] {
      const auto values = decoded(*loaded.weight);
      std::vector<float> out;
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto from = values.begin() + (h * (nope + v) + nope) * rank;
        out.insert(out.end(), from, from + v * rank);
      }
      return out;
    });
  }

  const Opened& opened_;
  const ModelConfig& config_;
  const Weights& weights_;
  DType type_;
  GgufWriter& writer_;
};

std::uint32_t file_type(DType type) {
  return type == DType::F32 ? 0 : type == DType::F16 ? 1 : 32;
}  // GGUF's own numbers

std::string model_name(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  return trimmed.substr(trimmed.rfind('/') + 1);
}

// A key as it stands, into the new file.
void copy_key(const std::string& key, const GgufValue& value, GgufWriter& writer, std::vector<std::string>& warnings) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return writer.add_string(key, *text);
  if (const auto* flag = std::get_if<bool>(&value)) return writer.add_bool(key, *flag);
  if (const auto* number = std::get_if<double>(&value)) return writer.add_f32(key, static_cast<float>(*number));
  if (const auto* number = std::get_if<std::uint64_t>(&value); number != nullptr && *number <= 0xffffffffU)
    return writer.add_u32(key, static_cast<std::uint32_t>(*number));
  if (const auto* number = std::get_if<std::int64_t>(&value);
      number != nullptr && *number >= 0 && *number <= 0xffffffff)
    return writer.add_u32(key, static_cast<std::uint32_t>(*number));
  if (const auto* list = std::get_if<GgufArray>(&value)) {
    constexpr std::uint32_t int32 = 5;
    constexpr std::uint32_t float32 = 6;
    constexpr std::uint32_t string = 8;
    const auto count = static_cast<std::size_t>(list->count);
    if (list->type == string) {
      const std::vector<std::string> texts(list->strings.begin(), list->strings.end());
      return writer.add_strings(key, texts);
    }
    if (list->type == float32) {
      std::vector<float> values(count);
      std::memcpy(values.data(), list->data.data(), count * sizeof(float));
      return writer.add_f32s(key, values);
    }
    if (list->type == int32) {
      std::vector<std::int32_t> values(count);
      std::memcpy(values.data(), list->data.data(), count * sizeof(std::int32_t));
      return writer.add_i32s(key, values);
    }
  }
  warnings.push_back(fmt::format("the key {} is left out: of a type this writer has not", key));
}

// From GGUF to GGUF nothing changes but the storage of matrices.
Result<void> copy_gguf(const GgufFile& file, DType type, GgufWriter& writer, std::vector<std::string>& warnings) {
  for (const auto& [key, value] : file.metadata())
    if (key != "general.file_type" && key != "general.quantization_version" && key != "general.alignment" &&
        !key.starts_with("split."))
      copy_key(key, value, writer, warnings);
  writer.add_u32("general.file_type", file_type(type));
  for (const GgufTensor& tensor : file.tensors()) {
    const bool plain = tensor.shape.size() == 1 || tensor.name.find("ffn_gate_inp") != std::string::npos;
    const DType dtype = plain ? DType::F32 : type;
    writer.add_tensor(tensor.name, dtype, tensor.shape, [&tensor, dtype](std::span<std::byte> out) -> Result<void> {
      const FormatInfo& from = format(tensor.dtype);
      std::vector<float> values(tensor.data.size() / static_cast<std::size_t>(from.block_bytes) *
                                static_cast<std::size_t>(from.block));
      from.decode(tensor.data.data(), values.data(), static_cast<std::int64_t>(values.size()) / from.block);
      encode(values, dtype, out.data());
      return {};
    });
  }
  return {};
}

// The writers of keys know the model, but not which one it is.
Result<void> of_model(const std::string& path, Result<void> done) {
  if (!done) done.error().message.insert(0, path + ": ");
  return done;
}

}  // namespace

Result<Conversion> convert_to_gguf(const std::string& path, const std::string& out, DType type,
                                   const std::function<void(double)>& progress, Existing existing) {
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16)
    return usage_error("convert writes f32, f16 or bf16, not {}", name(type));
  TRY(Opened opened, open_checkpoint(path));
  WeightSpec spec;
  opened.row->arch->spec(opened.out.config, spec);
  TRY(const Weights weights, load_weights(*opened.checkpoint, spec, opened.out.config, opened.out.oddities));
  Conversion conversion;
  GgufWriter writer;
  Converter converter(opened, weights, type, writer);
  if (opened.gguf != nullptr) {
    TRY_VOID(copy_gguf(*opened.gguf, type, writer, conversion.warnings));
  } else {
    writer.add_string("general.architecture", opened.row->gguf);
    writer.add_string("general.name", model_name(path));
    writer.add_u32("general.file_type", file_type(type));
    TRY_VOID(of_model(path, write_config_keys(*opened.row, opened.out.config, writer, conversion.warnings)));
    TRY_VOID(of_model(path, write_tokenizer_keys(opened.out, writer, conversion.warnings)));
    for (const WeightEntry& entry : spec.entries()) converter.add(entry);
  }
  const auto report = [&](std::uint64_t done, std::uint64_t all) {
    if (progress) progress(all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all));
  };
  TRY_VOID(writer.write(out, report, existing));
  return conversion;
}

}  // namespace knapsack
