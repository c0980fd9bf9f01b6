#include "import/model_text.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <numeric>

#include "base/json.h"
#include "base/mmap.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "files/sniff.h"
#include "import/folder.h"
#include "import/limits.h"
#include "text/gguf_vocab.h"
#include "text/tokenizer.h"

namespace knapsack {
namespace {

constexpr std::int32_t type_control = 3, type_byte = 6;

// Spellings that end a turn or a text in chat models, whatever the eos key says (llama.cpp's set, control tokens only).
constexpr std::array<std::string_view, 14> end_spellings{"<|eot_id|>",
                                                         "<|im_end|>",
                                                         "<|end|>",
                                                         "<|return|>",
                                                         "<|call|>",
                                                         "<end_of_turn>",
                                                         "<|endoftext|>",
                                                         "<|eom_id|>",
                                                         "<EOT>",
                                                         "_<EOT>",
                                                         "[EOT]",
                                                         "<|end_of_text|>",
                                                         "<end_of_utterance>",
                                                         "<\xEF\xBD\x9C"
                                                         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

// An id key: absent, and 2^32-1 as some writers say "none", is -1.
Result<std::int32_t> id_key(const GgufFile& file, std::string_view name, std::size_t tokens, const std::string& path) {
  if (file.find(key(name)) == nullptr) return -1;
  TRY(const std::int64_t id, file.integer(key(name)));
  if (id == 0xffffffff) return -1;
  if (id < 0 || id >= static_cast<std::int64_t>(tokens))
    return bad_input("{}: {}: expected a token id below {}, found {}", path, key(name), tokens, id);
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
Result<GgufVocab> vocab_of(const GgufFile& file, const std::string& path) {
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
  const auto id = [&](std::string_view name) { return id_key(file, name, tokens.size(), path); };
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

// By the numbers of what there is, without making the text.
std::int64_t tokenizer_bytes(const GgufVocab& vocab, std::span<const std::string_view> tokens,
                             std::span<const std::string_view> merges) {
  const auto total = [](std::span<const std::string_view> texts) {
    return std::accumulate(texts.begin(), texts.end(), std::int64_t{0}, [](std::int64_t sum, std::string_view text) {
      return sum + static_cast<std::int64_t>(text.size());
    });
  };
  constexpr std::int64_t around_token = 10;  // "":123456,
  constexpr std::int64_t around_merge = 8;   // ["",""],
  TokenizerSize size;
  size.tokens = std::ssize(tokens);
  size.spellings = total(tokens);
  size.text = size.spellings + around_token * size.tokens;
  std::int64_t merged = total(merges);
  size.merges = std::ssize(merges);
  if (vocab.model == "llama") {  // found when the text is made: two ways to cut a token, most often
    size.merges = 2 * size.tokens;
    merged = 2 * size.spellings;
  }
  size.text += merged + around_merge * size.merges;
  return size.bytes();
}

// A tokenizer.json: the text, and tables that take about as much.
std::int64_t tokenizer_bytes(const std::string& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : 2 * static_cast<std::int64_t>(bytes);
}

std::string kind_of(const GgufVocab& vocab) {
  if (vocab.model == "gpt2") return fmt::format("BPE ({})", vocab.pre.empty() ? "no pre-tokenizer named" : vocab.pre);
  if (vocab.model == "llama") return "SentencePiece";
  return vocab.model;
}

std::vector<std::int32_t> end_ids(const GgufVocab& vocab, std::span<const std::string_view> tokens) {
  std::vector<std::int32_t> ids;
  const auto add = [&](std::int32_t id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  for (const std::int32_t id : {vocab.eos, vocab.eot, vocab.eom}) add(id);
  for (std::size_t i = 0; i < vocab.types.size(); ++i)
    if (vocab.types[i] == type_control &&
        std::find(end_spellings.begin(), end_spellings.end(), tokens[i]) != end_spellings.end())
      add(static_cast<std::int32_t>(i));
  return ids;
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

Result<void> read_end_tokens(const Fields* config, const json::object& generation, const json::object& tokenizer,
                             const Folder& folder, ModelText& out) {
  const Fields generate(generation, folder.file("generation_config.json"));
  TRY(out.eos_ids, id_list(generate, "eos_token_id"));
  if (config != nullptr) {
    TRY(const auto of_config, id_list(*config, "eos_token_id"));
    if (out.eos_ids.empty()) out.eos_ids = of_config;
    for (const auto id : of_config)
      if (std::find(out.eos_ids.begin(), out.eos_ids.end(), id) == out.eos_ids.end())
        out.oddities.push_back(
            fmt::format("eos_token_id {} of config.json is not among generation_config.json's, which count", id));
  }
  if (out.eos_ids.empty()) {
    if (const std::int32_t id = eos_of_tokenizer(tokenizer); id >= 0) out.eos_ids.push_back(id);
  }
  if (out.eos_ids.empty()) out.oddities.emplace_back("no end token (eos_token_id)");
  return {};
}

// A large file: what cannot be one (a Git LFS pointer, a page) is refused by its first bytes.
Result<std::string> read_tokenizer_json(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{256} << 20;
  TRY(const RegularFile file, open_regular(path));
  std::array<char, 4096> start{};
  const ssize_t n = ::pread(file.descriptor.get(), start.data(), start.size(), 0);
  std::string_view text(start.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  const std::string seems = guess_content(std::as_bytes(std::span(text)));
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const bool whole = file.size <= start.size();
  if (!text.starts_with('{') && (whole || !text.empty()))
    return bad_input("{}: expected a tokenizer.json, a JSON object{}{}", path, seems.empty() ? "" : "; it seems to be ",
                     seems);
  return read_text_file(path, most_bytes);
}

}  // namespace

Result<ModelText> gguf_model_text(const std::shared_ptr<const GgufFile>& file, const std::string& path) {
  ModelText text;
  if (file->find("tokenizer.chat_template") != nullptr) {
    TRY(const auto source, file->string("tokenizer.chat_template"));
    text.chat_template = source;
  } else {
    text.oddities.emplace_back("no chat template (tokenizer.chat_template)");
  }
  const GgufValue* model = file->find(key("model"));
  const std::string_view* kind = model == nullptr ? nullptr : std::get_if<std::string_view>(model);
  if (model == nullptr || (kind != nullptr && *kind == "no_vocab")) {
    text.oddities.emplace_back("no tokenizer (tokenizer.ggml.model)");
    return text;
  }
  TRY(GgufVocab vocab, vocab_of(*file, path));
  TRY(const auto tokens, file->string_array(key("tokens")));
  text.tokens = static_cast<std::int64_t>(tokens.size());
  text.tokenizer_kind = kind_of(vocab);
  text.eos_ids = end_ids(vocab, tokens);
  if (text.eos_ids.empty()) text.oddities.emplace_back("no end token (tokenizer.ggml.eos_token_id)");
  text.tokenizer_config_json = config_of(vocab, tokens);
  std::span<const std::string_view> merges;
  if (file->find(key("merges")) != nullptr) {
    TRY(merges, file->string_array(key("merges")));
  }
  text.tokenizer_bytes = tokenizer_bytes(vocab, tokens, merges);
  text.tokenizer_json = [file, path, vocab = std::move(vocab)]() -> Result<std::string> {
    GgufVocab whole = vocab;
    TRY(const auto spellings, file->string_array(key("tokens")));
    whole.tokens.assign(spellings.begin(), spellings.end());
    if (file->find(key("merges")) != nullptr) {
      TRY(const auto pairs, file->string_array(key("merges")));
      whole.merges.assign(pairs.begin(), pairs.end());
    }
    return tokenizer_json_from(whole, path);
  };
  return text;
}

Result<ModelText> folder_model_text(const std::string& path, const Fields* config) {
  const Folder folder(path);
  ModelText out;
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
    out.tokenizer_bytes = tokenizer_bytes(folder.file("tokenizer.json"));
    out.tokenizer_json = [path = folder.file("tokenizer.json")] { return read_tokenizer_json(path); };
  } else if (folder.has("tokenizer.model")) {
    out.oddities.emplace_back(
        "no tokenizer.json; tokenizer.model (SentencePiece) alone is not read: save the tokenizer with a fast "
        "tokenizer once");
  } else {
    out.oddities.emplace_back("no tokenizer (tokenizer.json)");
  }
  TRY_VOID(read_end_tokens(config, generation, tokenizer, folder, out));
  return out;
}

Result<ModelText> read_model_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const Folder folder(path);
    constexpr std::array names{"config.json",     "tokenizer.json",         "tokenizer_config.json",
                               "tokenizer.model", "generation_config.json", "chat_template.jinja"};
    if (std::none_of(names.begin(), names.end(), [&](const char* name) { return folder.has(name); }))
      return bad_input("{}: expected a folder with {}; found none of them", path, fmt::join(names, ", "));
    return folder_model_text(path, nullptr);
  }
  if (path.ends_with(".json")) {
    ModelText text;
    text.tokenizer_json = [path] { return read_tokenizer_json(path); };
    text.tokenizer_kind = "tokenizer.json";
    return text;
  }
  TRY(const auto file, GgufFile::open(path));
  return gguf_model_text(file, path);
}

}  // namespace knapsack
