// A Hugging Face folder -> Imported: config.json, safetensors, and the small files beside them.
#include <filesystem>

#include "base/hash.h"
#include "base/json.h"
#include "files/safetensors.h"
#include "import/assemble.h"
#include "import/checkpoint_hf.h"
#include "import/folder.h"
#include "import/model_text.h"
#include "import/quantized.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

Result<void> read_text_side(const std::string& path, const Fields& config, Imported& out) {
  TRY(ModelText text, folder_model_text(path, &config));
  for (const auto id : text.eos_ids)
    if (id >= out.config.vocab)
      out.oddities.push_back(fmt::format("end token {} is beyond the vocabulary of {}", id, out.config.vocab));
  take_text(std::move(text), out);
  return {};
}

Result<json::object> read_config(const Folder& folder, const std::string& path) {
  if (!folder.has("config.json")) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".gguf")
        return bad_input("{}: no config.json, but GGUF files: name one of them ({})", path,
                         entry.path().filename().string());
    return bad_input("{}: expected a model folder with config.json, found none", path);
  }
  TRY(const std::string text, read_text_file(folder.file("config.json"), std::size_t{16} << 20));
  return parse_json_object(text, folder.file("config.json"));
}

Result<QuantConfig> read_quantization(const Folder& folder, const Fields& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (!config.has(key)) continue;
    TRY(const Fields fields, config.object(key));
    return quant_config(fields);
  }
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    if (!folder.has(name)) continue;
    TRY(const std::string text, folder.object_text(name));
    TRY(json::object object, parse_json_object(text, folder.file(name)));
    if (std::string_view(name) == "quant_config.json" && !object.contains("quant_method"))
      object["quant_method"] = "awq";
    return quant_config(Fields(object, folder.file(name)));
  }
  return QuantConfig{};
}

}  // namespace

Result<Opened> open_hf(const std::string& path) {
  const Folder folder(path);
  TRY(const json::object whole, read_config(folder, path));
  Fields config(whole, folder.file("config.json"));
  TRY(const QuantConfig quant, read_quantization(folder, config));
  Opened opened;
  Imported& out = opened.out;
  out.source = path;
  if (config.has("text_config")) {  // a larger model around a language model
    TRY(config, config.object("text_config"));
    if (!config.has("model_type")) return config.wrong("model_type", "a string");
    out.oddities.emplace_back("only the language model (text_config) is read");
  }
  TRY(opened.row, architecture_of_hf(config));
  out.config.architecture = opened.row->id;
  TRY_VOID(opened.row->arch->from_hf(config, out.config, out.oddities));
  TRY(const auto next_layers,
      config.integer_or("num_nextn_predict_layers", 0, 64, opened.row->id == "deepseek_v3" ? 1 : 0));
  TRY(const auto files, SafetensorsFiles::open_folder(path, out.oddities));
  out.format = "safetensors";
  if (files->parts().size() > 1) out.format += fmt::format(", {} shards", files->parts().size());
  if (quant.method != QuantMethod::none) out.format += fmt::format(" ({})", quant.text());
  Sha256 hash;
  hash.update(json::serialize(whole));
  for (std::size_t part = 0; part < files->parts().size(); ++part) hash.update(files->header(static_cast<int>(part)));
  out.model_hash = hash.hex();
  opened.checkpoint = hf_checkpoint(files, path, quant, next_layers);
  TRY_VOID(read_text_side(path, config, out));
  return opened;
}

}  // namespace knapsack
