#include "import/model_text.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "base/mmap.h"
#include "base/utf8.h"
#include "text/gguf_vocab.h"

namespace knapsack {
namespace {

constexpr std::int32_t type_control = 3, type_user_defined = 4, type_byte = 6;

// Names of end-of-turn tokens, as the tokenizers of known families spell them. A GGUF names one end token; chat
// models end a turn with another, and llama.cpp knows these by their text too.
constexpr std::array<std::string_view, 12> end_spellings{
    "<|eot_id|>",    "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
    "<|endoftext|>", "<|eom_id|>", "<EOT>",   "_<EOT>",     "[EOT]",    "<|end_of_text|>"};

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

// An id key: absent is -1, one outside the vocabulary is an error.
Result<std::int32_t> id_key(const GgufFile& file, std::string_view name, std::size_t tokens, const std::string& path,
                            std::vector<std::string>& oddities) {
  if (file.find(key(name)) == nullptr) return -1;
  TRY(const std::int64_t id, file.integer(key(name)));
  if (id < 0 || id >= static_cast<std::int64_t>(tokens)) {
    // Some converters write 2^32-1 or the padded size for "none".
    oddities.push_back(fmt::format("{}: {} is {}, the vocabulary has {} tokens; ignored", path, key(name), id, tokens));
    return -1;
  }
  return static_cast<std::int32_t>(id);
}

Result<int> flag_key(const GgufFile& file, std::string_view name) {
  if (file.find(key(name)) == nullptr) return -1;
  TRY(const bool value, file.boolean(key(name)));
  return value ? 1 : 0;
}

bool spells_a_byte(std::string_view token) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.starts_with("<0x") && hex(token[3]) && hex(token[4]) && token[5] == '>';
}

// The vocabulary but for its strings, checked; the strings are copied only when a tokenizer is made.
Result<GgufVocab> vocab_of(const GgufFile& file, const std::string& path, std::vector<std::string>& oddities) {
  GgufVocab vocab;
  TRY(const auto model, file.string(key("model")));
  vocab.model = model;
  if (file.find(key("pre")) != nullptr) {
    TRY(const auto pre, file.string(key("pre")));
    vocab.pre = pre;
  }
  TRY(const auto tokens, file.string_array(key("tokens")));
  if (file.find(key("scores")) != nullptr) {
    TRY(vocab.scores, file.f32_array(key("scores")));
  }
  if (file.find(key("token_type")) != nullptr) {
    TRY(vocab.types, file.i32_array(key("token_type")));
  }
  if (file.find(key("merges")) != nullptr) TRY_VOID(file.string_array(key("merges")));
  for (const auto& [name, size] : {std::pair{"scores", vocab.scores.size()}, {"token_type", vocab.types.size()}})
    if (size != 0 && size != tokens.size())
      return bad_input("{}: {} has {} entries, expected one for each of the {} tokens", path, key(name), size,
                       tokens.size());
  for (std::size_t i = 0; i < vocab.types.size(); ++i)
    if (vocab.types[i] == type_byte && !spells_a_byte(tokens[i]))
      return bad_input("{}: {}: token {} is {}, expected a byte token from '<0x00>' to '<0xFF>'", path, key("tokens"),
                       i, printable(tokens[i]));
  const auto id = [&](std::string_view name) { return id_key(file, name, tokens.size(), path, oddities); };
  TRY(vocab.bos, id("bos_token_id"));
  TRY(vocab.eos, id("eos_token_id"));
  TRY(vocab.unk, id("unknown_token_id"));
  TRY(vocab.pad, id("padding_token_id"));
  TRY(vocab.eot, id("eot_token_id"));
  TRY(vocab.eom, id("eom_token_id"));
  TRY(vocab.add_bos, flag_key(file, "add_bos_token"));
  TRY(vocab.add_eos, flag_key(file, "add_eos_token"));
  TRY(vocab.add_space_prefix, flag_key(file, "add_space_prefix"));
  TRY(vocab.remove_extra_whitespaces, flag_key(file, "remove_extra_whitespaces"));
  return vocab;
}

std::string kind_of(const GgufVocab& vocab) {
  if (vocab.model == "gpt2") return fmt::format("BPE ({})", vocab.pre.empty() ? "no pre-tokenizer named" : vocab.pre);
  if (vocab.model == "llama") return "SentencePiece";
  return vocab.model;
}

std::vector<std::int32_t> end_ids(const GgufVocab& vocab, std::span<const std::string_view> tokens) {
  std::set<std::int32_t> ids;
  for (const std::int32_t id : {vocab.eos, vocab.eot, vocab.eom})
    if (id >= 0) ids.insert(id);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool special = vocab.types.empty() || vocab.types[i] == type_control || vocab.types[i] == type_user_defined;
    if (special && std::find(end_spellings.begin(), end_spellings.end(), tokens[i]) != end_spellings.end())
      ids.insert(static_cast<std::int32_t>(i));
  }
  return {ids.begin(), ids.end()};
}

std::string config_of(const GgufVocab& vocab, std::span<const std::string_view> tokens) {
  json::object config;
  for (const auto& [name, id] : {std::pair{"bos_token", vocab.bos},
                                 {"eos_token", vocab.eos},
                                 {"unk_token", vocab.unk},
                                 {"pad_token", vocab.pad}})
    if (id >= 0) config[name] = tokens[static_cast<std::size_t>(id)];
  if (vocab.add_bos >= 0) config["add_bos_token"] = vocab.add_bos == 1;
  if (vocab.add_eos >= 0) config["add_eos_token"] = vocab.add_eos == 1;
  return json::serialize(config);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<std::string> text_if_there(const std::string& path, std::string otherwise) {
  if (!exists(path)) return otherwise;
  return read_text_file(path);
}

// "chat_template": the text, or a list of named ones, of which "default" (else the first) is meant.
std::string template_in(const json::object& config, const std::string& origin, std::vector<std::string>& oddities) {
  const json::value* value = config.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return "";
  if (value->is_string()) return std::string(value->get_string());
  const json::object* chosen = nullptr;
  std::size_t entries = 0;
  if (value->is_array()) {
    for (const auto& item : value->get_array()) {
      if (!item.is_object()) continue;
      const auto* name = item.get_object().if_contains("name");
      ++entries;
      if (chosen == nullptr || (name != nullptr && name->is_string() && name->get_string() == "default"))
        chosen = &item.get_object();
    }
  }
  const json::value* text = chosen == nullptr ? nullptr : chosen->if_contains("template");
  if (text == nullptr || !text->is_string()) {
    oddities.push_back(fmt::format("{}: chat_template is {}, expected text; ignored", origin, json_kind(*value)));
    return "";
  }
  if (entries > 1) oddities.push_back(fmt::format("{}: {} chat templates; the default one is used", origin, entries));
  return std::string(text->get_string());
}

// "eos_token_id": a number, or a list of them. False: not there.
bool eos_in(const json::object& config, const std::string& origin, std::set<std::int32_t>& ids,
            std::vector<std::string>& oddities) {
  const json::value* value = config.if_contains("eos_token_id");
  if (value == nullptr || value->is_null()) return false;
  const auto take = [&](const json::value& item) {
    if (item.is_int64() && item.get_int64() >= 0 && item.get_int64() <= INT32_MAX) {
      ids.insert(static_cast<std::int32_t>(item.get_int64()));
    } else {
      oddities.push_back(
          fmt::format("{}: eos_token_id holds {}, expected a token id; ignored", origin, json::serialize(item)));
    }
  };
  if (value->is_array()) {
    for (const auto& item : value->get_array()) take(item);
  } else {
    take(*value);
  }
  return true;
}

}  // namespace

Result<ModelText> gguf_model_text(const std::shared_ptr<const GgufFile>& file, const std::string& path) {
  ModelText text;
  if (file->find("tokenizer.chat_template") != nullptr) {
    TRY(const auto source, file->string("tokenizer.chat_template"));
    text.chat_template = source;
  }
  if (file->find(key("model")) == nullptr && file->find(key("tokens")) == nullptr) return text;
  TRY(GgufVocab vocab, vocab_of(*file, path, text.oddities));
  TRY(const auto tokens, file->string_array(key("tokens")));
  text.tokenizer_kind = kind_of(vocab);
  text.eos_ids = end_ids(vocab, tokens);
  text.tokenizer_config_json = config_of(vocab, tokens);
  text.tokenizer_json = [file, path, vocab = std::move(vocab)]() -> Result<std::string> {
    GgufVocab whole = vocab;
    TRY(const auto spellings, file->string_array(key("tokens")));
    whole.tokens.assign(spellings.begin(), spellings.end());
    if (file->find(key("merges")) != nullptr) {
      TRY(const auto merges, file->string_array(key("merges")));
      whole.merges.assign(merges.begin(), merges.end());
    }
    return tokenizer_json_from(whole, path);
  };
  return text;
}

Result<ModelText> folder_model_text(const std::string& folder) {
  const auto inside = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  ModelText text;
  TRY(text.tokenizer_config_json, text_if_there(inside("tokenizer_config.json"), "{}"));
  TRY(const json::object config, parse_json_object(text.tokenizer_config_json, inside("tokenizer_config.json")));
  if (const std::string path = inside("tokenizer.json"); exists(path)) {
    text.tokenizer_json = [path]() -> Result<std::string> { return read_text_file(path, std::size_t{256} << 20); };
    const json::value* kind = config.if_contains("tokenizer_class");
    text.tokenizer_kind = kind != nullptr && kind->is_string()
                              ? fmt::format("tokenizer.json ({})", std::string(kind->get_string()))
                              : "tokenizer.json";
  } else if (exists(inside("tokenizer.model"))) {
    text.oddities.push_back(
        fmt::format("{}: there is a tokenizer.model but no tokenizer.json; only that is read", folder));
  }

  if (exists(inside("chat_template.jinja"))) {
    TRY(text.chat_template, read_text_file(inside("chat_template.jinja")));
  } else if (exists(inside("chat_template.json"))) {
    TRY(const std::string source, read_text_file(inside("chat_template.json")));
    TRY(const json::object object, parse_json_object(source, inside("chat_template.json")));
    text.chat_template = template_in(object, inside("chat_template.json"), text.oddities);
  } else {
    text.chat_template = template_in(config, inside("tokenizer_config.json"), text.oddities);
  }

  TRY(text.generation_config_json, text_if_there(inside("generation_config.json"), "{}"));
  std::set<std::int32_t> ends;
  TRY(const json::object generation, parse_json_object(text.generation_config_json, inside("generation_config.json")));
  if (!eos_in(generation, inside("generation_config.json"), ends, text.oddities) && exists(inside("config.json"))) {
    TRY(const std::string source, read_text_file(inside("config.json")));
    TRY(const json::object model, parse_json_object(source, inside("config.json")));
    eos_in(model, inside("config.json"), ends, text.oddities);
  }
  text.eos_ids.assign(ends.begin(), ends.end());
  return text;
}

Result<ModelText> read_model_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return folder_model_text(path);
  if (path.ends_with(".json")) {
    ModelText text;
    text.tokenizer_json = [path]() -> Result<std::string> { return read_text_file(path, std::size_t{256} << 20); };
    text.tokenizer_kind = "tokenizer.json";
    return text;
  }
  TRY(const auto file, GgufFile::open(path));
  return gguf_model_text(file, path);
}

}  // namespace knapsack
