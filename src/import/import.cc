#include "import/import.h"

#include <algorithm>
#include <filesystem>

#include "import/assemble.h"
#include "import/public_models.h"

namespace knapsack {

Result<void> assemble(const ArchitectureRow& row, const Checkpoint& checkpoint, const ImportOptions& options,
                      Imported& out) {
  WeightSpec spec;
  row.arch->spec(out.config, spec);
  TRY(const Weights weights, load_weights(checkpoint, spec, out.config, out.oddities));
  const std::int64_t ctx = options.ctx > 0 ? options.ctx : out.config.ctx;
  Decoder decoder(out.config, weights, ctx);
  row.arch->build(out.config, decoder);
  out.graph = decoder.take();
  for (const WeightEntry& entry : spec.entries()) {
    std::int64_t elements = 1;
    for (const auto d : entry.shape) elements *= d;
    out.parameters += elements;
    ModelWeight weight{.name = entry.name, .shape = entry.shape};
    if (weights.has(entry.name) && weights.at(entry.name).weight != nullptr) {
      weight.bytes = weights.at(entry.name).weight->bytes();
      weight.dtype = weights.at(entry.name).weight->dtype;
    }
    out.weights.push_back(std::move(weight));
  }
  for (const TensorView& view : checkpoint.tensors())
    out.tensors.push_back({view.name, view.dtype, view.shape, view.data.size()});
  if (ctx > out.config.ctx)
    out.oddities.push_back(fmt::format("a context of {} is beyond the {} the model was made for", ctx, out.config.ctx));
  return {};
}

void take_text(ModelText text, Imported& out) {
  out.tokenizer_json = std::move(text.tokenizer_json);
  out.tokenizer_kind = std::move(text.tokenizer_kind);
  out.tokenizer_bytes = text.tokenizer_bytes;
  out.tokenizer_config_json = std::move(text.tokenizer_config_json);
  out.chat_template = std::move(text.chat_template);
  out.generation_config_json = std::move(text.generation_config_json);
  out.eos_ids = std::move(text.eos_ids);
  out.oddities.insert(out.oddities.end(), text.oddities.begin(), text.oddities.end());
}

Result<Opened> open_checkpoint(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_hf(path);
  if (path.ends_with(".safetensors") && std::filesystem::exists(path, error))
    return bad_input("{}: a safetensors file alone has no config; name its folder ({})", path,
                     std::filesystem::path(path).parent_path().string());
  if (!std::filesystem::exists(path, error) && find_public_model(path))
    return usage_error(
        "{}: of this public model the shapes are known, but no weights are here; name a checkpoint (a GGUF file or a "
        "Hugging Face folder)",
        path);
  return open_gguf(path);
}

Result<Imported> import_model(const std::string& path, const ImportOptions& options) {
  TRY(Opened opened, open_checkpoint(path));
  TRY_VOID(assemble(*opened.row, *opened.checkpoint, options, opened.out));
  return std::move(opened.out);
}

}  // namespace knapsack
