// A Hugging Face folder -> Imported: config.json, safetensors, and the small files beside them.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/hash.h"
#include "base/json.h"
#include "files/safetensors.h"
#include "import/assemble.h"
#include "import/checkpoint_hf.h"
#include "import/limits.h"
#include "import/quantized.h"

namespace knapsack {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string file(std::string_view name) const { return (fs::path(path_) / name).string(); }
  [[nodiscard]] bool has(std::string_view name) const {
    std::error_code error;
    return fs::exists(file(name), error);
  }
  // The text of an object's file, checked to be one; "{}" when there is no such file.
  [[nodiscard]] Result<std::string> object_text(std::string_view name) const {
    if (!has(name)) return std::string("{}");
    TRY(std::string text, read_text_file(file(name)));
    TRY_VOID(as_void(parse_json_object(text, file(name))));
    return text;
  }

 private:
  static Result<void> as_void(Result<json::object> parsed) {
    if (!parsed) return std::move(parsed).error();
    return {};
  }
  std::string path_;
};

// "chat_template" of tokenizer_config.json: a string, or a list of {name, template}; the one named "default" wins.
Result<std::string> template_of(const json::object& config, const std::string& origin,
                                std::vector<std::string>& oddities) {
  const json::value* value = config.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return std::string();
  if (value->is_string()) return std::string(value->get_string());
  if (!value->is_array()) return bad_input("{}: chat_template: expected a string or a list", origin);
  std::string first;
  std::string names;
  for (const json::value& entry : value->get_array()) {
    if (!entry.is_object()) return bad_input("{}: chat_template: expected objects with name and template", origin);
    TRY(const std::string name, json_string(entry.get_object(), "name", origin));
    TRY(std::string source, json_string(entry.get_object(), "template", origin));
    if (name == "default") return source;
    if (first.empty()) first = std::move(source);
    names += (names.empty() ? "" : ", ") + name;
  }
  if (!first.empty())
    oddities.push_back(fmt::format("{}: no chat template is named default; the first of {} is used", origin, names));
  return first;
}

// An id or a list of ids.
Result<std::vector<std::int32_t>> id_list(const Fields& fields, std::string_view key) {
  std::vector<std::int32_t> ids;
  const json::value* value = fields.find(key);
  if (value == nullptr) return ids;
  if (value->is_array()) {
    TRY(const auto list, fields.integers(key, 0, limits::vocab, 4096));
    ids.assign(list.begin(), list.end());
  } else {
    TRY(const auto id, fields.integer(key, -1, limits::vocab));
    if (id >= 0) ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

// The id of tokenizer_config.json's eos_token, by added_tokens_decoder.
std::int32_t eos_of_tokenizer(const json::object& config) {
  const json::value* eos = config.if_contains("eos_token");
  if (eos != nullptr && eos->is_object()) eos = eos->get_object().if_contains("content");
  const json::value* added = config.if_contains("added_tokens_decoder");
  if (eos == nullptr || !eos->is_string() || added == nullptr || !added->is_object()) return -1;
  for (const auto& [id, token] : added->get_object()) {
    const json::value* content = token.is_object() ? token.get_object().if_contains("content") : nullptr;
    if (content == nullptr || *content != *eos) continue;
    std::int32_t number = -1;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
    if (error == std::errc() && end == id.data() + id.size()) return number;
  }
  return -1;
}

Result<void> read_end_tokens(const Fields& config, const json::object& generation, const json::object& tokenizer,
                             const Folder& folder, Imported& out) {
  const Fields generate(generation, folder.file("generation_config.json"));
  TRY(const auto of_config, id_list(config, "eos_token_id"));
  TRY(out.eos_ids, id_list(generate, "eos_token_id"));
  if (out.eos_ids.empty()) {
    out.eos_ids = of_config;
  } else {
    for (const auto id : of_config)
      if (std::find(out.eos_ids.begin(), out.eos_ids.end(), id) == out.eos_ids.end())
        out.oddities.push_back(
            fmt::format("eos_token_id {} of config.json is not among generation_config.json's, which count", id));
  }
  if (out.eos_ids.empty()) {
    if (const std::int32_t id = eos_of_tokenizer(tokenizer); id >= 0) out.eos_ids.push_back(id);
  }
  if (out.eos_ids.empty()) out.oddities.emplace_back("no end token (eos_token_id)");
  for (const auto id : out.eos_ids)
    if (id >= out.config.vocab)
      out.oddities.push_back(fmt::format("end token {} is beyond the vocabulary of {}", id, out.config.vocab));
  return {};
}

Result<void> read_text_side(const Folder& folder, const Fields& config, Imported& out) {
  TRY(out.generation_config_json, folder.object_text("generation_config.json"));
  TRY(out.tokenizer_config_json, folder.object_text("tokenizer_config.json"));
  TRY(const auto generation, parse_json_object(out.generation_config_json, folder.file("generation_config.json")));
  TRY(const auto tokenizer, parse_json_object(out.tokenizer_config_json, folder.file("tokenizer_config.json")));
  TRY(out.chat_template, template_of(tokenizer, folder.file("tokenizer_config.json"), out.oddities));
  if (folder.has("chat_template.jinja")) {
    if (!out.chat_template.empty())
      out.oddities.emplace_back("chat_template.jinja wins over tokenizer_config.json's chat_template");
    TRY(out.chat_template, read_text_file(folder.file("chat_template.jinja")));
  }
  if (out.chat_template.empty()) out.oddities.emplace_back("no chat template");
  if (folder.has("tokenizer.json")) {
    out.tokenizer_kind = "tokenizer.json";
    if (const auto* kind = tokenizer.if_contains("tokenizer_class"); kind != nullptr && kind->is_string())
      out.tokenizer_kind += fmt::format(" ({})", std::string_view(kind->get_string()));
    out.tokenizer_json = [path = folder.file("tokenizer.json")] { return read_text_file(path); };
  } else if (folder.has("tokenizer.model")) {
    out.oddities.emplace_back(
        "no tokenizer.json; tokenizer.model (SentencePiece) alone is not read: save the tokenizer with a fast "
        "tokenizer once");
  } else {
    out.oddities.emplace_back("no tokenizer (tokenizer.json)");
  }
  return read_end_tokens(config, generation, tokenizer, folder, out);
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
  TRY_VOID(read_text_side(folder, config, out));
  return opened;
}

}  // namespace knapsack
