// A GGUF file -> Imported: config and weights by the architecture its header names, tokenizer, template and end tokens
// from the tokenizer.* keys.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "files/gguf.h"
#include "import/assemble.h"
#include "import/checkpoint_gguf.h"
#include "text/gguf_vocab.h"

namespace knapsack {
namespace {

constexpr std::uint32_t gguf_int32 = 5;
constexpr std::uint32_t gguf_float32 = 6;
constexpr std::uint32_t gguf_string = 8;
constexpr std::int32_t control_token = 3;
constexpr std::int32_t byte_token = 6;

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

Result<const GgufArray*> array_key(const GgufFile& file, const std::string& path, std::string_view key,
                                   std::uint32_t type, std::string_view type_name, bool required) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) {
    if (required) return bad_input("{}: {}: expected an array of {}, found nothing", path, key, type_name);
    return nullptr;
  }
  const GgufArray* list = std::get_if<GgufArray>(value);
  if (list == nullptr || list->type != type)
    return bad_input(
        "{}: {}: expected an array of {}, found {}", path, key, type_name,
        list == nullptr ? std::string("a single value") : fmt::format("an array of GGUF type {}", list->type));
  return list;
}

Result<std::int32_t> token_key(const GgufFile& file, const std::string& path, std::string_view key,
                               std::int64_t tokens) {
  const std::string full = "tokenizer.ggml." + std::string(key);
  if (file.find(full) == nullptr) return -1;
  TRY(const auto id, file.integer(full));
  if (id == 0xffffffff) return -1;  // how some writers say "none"
  if (id < 0 || id >= tokens)
    return bad_input("{}: {}: expected a token id below {}, found {}", path, full, tokens, id);
  return static_cast<std::int32_t>(id);
}

Result<int> flag_key(const GgufFile& file, const std::string& path, std::string_view key) {
  const std::string full = "tokenizer.ggml." + std::string(key);
  const GgufValue* value = file.find(full);
  if (value == nullptr) return -1;
  const bool* flag = std::get_if<bool>(value);
  if (flag == nullptr) return bad_input("{}: {}: expected a boolean", path, full);
  return *flag ? 1 : 0;
}

template <class T>
std::vector<T> scalars(const GgufArray* list) {
  std::vector<T> out;
  if (list == nullptr) return out;
  out.resize(static_cast<std::size_t>(list->count));
  std::memcpy(out.data(), list->data.data(), out.size() * sizeof(T));
  return out;
}

bool is_byte_spelling(std::string_view token) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') && hex(token[3]) && hex(token[4]);
}

Result<GgufVocab> read_vocab(const GgufFile& file, const std::string& path) {
  GgufVocab vocab;
  TRY(const auto model, file.string("tokenizer.ggml.model"));
  vocab.model = model;
  if (file.find("tokenizer.ggml.pre") != nullptr) {
    TRY(const auto pre, file.string("tokenizer.ggml.pre"));
    vocab.pre = pre;
  }
  TRY(const GgufArray* tokens, array_key(file, path, "tokenizer.ggml.tokens", gguf_string, "strings", true));
  vocab.tokens.assign(tokens->strings.begin(), tokens->strings.end());
  TRY(const GgufArray* merges, array_key(file, path, "tokenizer.ggml.merges", gguf_string, "strings", false));
  if (merges != nullptr) vocab.merges.assign(merges->strings.begin(), merges->strings.end());
  TRY(const GgufArray* scores, array_key(file, path, "tokenizer.ggml.scores", gguf_float32, "FLOAT32", false));
  vocab.scores = scalars<float>(scores);
  TRY(const GgufArray* types, array_key(file, path, "tokenizer.ggml.token_type", gguf_int32, "INT32", false));
  vocab.types = scalars<std::int32_t>(types);
  for (const auto& [key, list] : {std::pair("scores", scores), std::pair("token_type", types)})
    if (list != nullptr && list->count != tokens->count)
      return bad_input("{}: tokenizer.ggml.{}: expected {} entries, one a token, found {}", path, key, tokens->count,
                       list->count);
  for (std::size_t i = 0; i < vocab.types.size(); ++i)
    if (vocab.types[i] == byte_token && !is_byte_spelling(vocab.tokens[i]))
      return bad_input("{}: tokenizer.ggml.tokens[{}]: expected a byte token <0x00> to <0xFF>, found \"{}\"", path, i,
                       vocab.tokens[i]);
  TRY(vocab.bos, token_key(file, path, "bos_token_id", tokens->count));
  TRY(vocab.eos, token_key(file, path, "eos_token_id", tokens->count));
  TRY(vocab.unk, token_key(file, path, "unknown_token_id", tokens->count));
  TRY(vocab.pad, token_key(file, path, "padding_token_id", tokens->count));
  TRY(vocab.eot, token_key(file, path, "eot_token_id", tokens->count));
  TRY(vocab.eom, token_key(file, path, "eom_token_id", tokens->count));
  TRY(vocab.add_bos, flag_key(file, path, "add_bos_token"));
  TRY(vocab.add_eos, flag_key(file, path, "add_eos_token"));
  TRY(vocab.add_space_prefix, flag_key(file, path, "add_space_prefix"));
  TRY(vocab.remove_extra_whitespaces, flag_key(file, path, "remove_extra_whitespaces"));
  return vocab;
}

std::vector<std::int32_t> end_ids(const GgufVocab& vocab) {
  std::vector<std::int32_t> ids;
  const auto add = [&](std::int32_t id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  add(vocab.eos);
  add(vocab.eot);
  add(vocab.eom);
  for (std::size_t i = 0; i < vocab.types.size(); ++i)
    if (vocab.types[i] == control_token &&
        std::find(end_spellings.begin(), end_spellings.end(), vocab.tokens[i]) != end_spellings.end())
      add(static_cast<std::int32_t>(i));
  return ids;
}

// What templates and chat read of a tokenizer_config.json.
std::string tokenizer_config(const GgufVocab& vocab) {
  json::object config;
  const auto token = [&](const char* key, std::int32_t id) {
    if (id >= 0) config[key] = vocab.tokens[static_cast<std::size_t>(id)];
  };
  token("bos_token", vocab.bos);
  token("eos_token", vocab.eos);
  token("unk_token", vocab.unk);
  token("pad_token", vocab.pad);
  if (vocab.add_bos >= 0) config["add_bos_token"] = vocab.add_bos == 1;
  if (vocab.add_eos >= 0) config["add_eos_token"] = vocab.add_eos == 1;
  return json::serialize(config);
}

Result<void> read_text_side(const std::shared_ptr<const GgufFile>& file, Imported& out) {
  if (file->find("tokenizer.chat_template") != nullptr) {
    TRY(const auto source, file->string("tokenizer.chat_template"));
    out.chat_template = source;
  } else {
    out.oddities.emplace_back("no chat template (tokenizer.chat_template)");
  }
  const GgufValue* model = file->find("tokenizer.ggml.model");
  const std::string_view* kind = model == nullptr ? nullptr : std::get_if<std::string_view>(model);
  if (model == nullptr || (kind != nullptr && *kind == "no_vocab")) {
    out.oddities.emplace_back("no tokenizer (tokenizer.ggml.model)");
    return {};
  }
  TRY(auto vocab, read_vocab(*file, out.source));
  const auto tokens = static_cast<std::int64_t>(vocab.tokens.size());
  if (tokens > out.config.vocab)
    return bad_input("{}: tokenizer.ggml.tokens: expected at most {} entries (rows of token_embd.weight), found {}",
                     out.source, out.config.vocab, tokens);
  if (tokens < out.config.vocab)
    out.oddities.push_back(
        fmt::format("the vocabulary has {} tokens, the embeddings {} rows", tokens, out.config.vocab));
  out.eos_ids = end_ids(vocab);
  if (out.eos_ids.empty()) out.oddities.emplace_back("no end token (tokenizer.ggml.eos_token_id)");
  out.tokenizer_kind = vocab.pre.empty() ? vocab.model : fmt::format("{} ({})", vocab.model, vocab.pre);
  out.tokenizer_config_json = tokenizer_config(vocab);
  out.tokenizer_json = [vocab = std::make_shared<const GgufVocab>(std::move(vocab)), path = out.source] {
    return tokenizer_json_from(*vocab, path);
  };
  return {};
}

}  // namespace

Result<Opened> open_gguf(const std::string& path) {
  TRY(auto file, GgufFile::open(path));
  Opened opened;
  Imported& out = opened.out;
  out.source = path;
  out.format = fmt::format("GGUF v{}", file->version());
  if (file->parts().size() > 1) out.format += fmt::format(", {} parts", file->parts().size());
  TRY(const auto name, file->string("general.architecture"));
  TRY(opened.row, architecture_of_gguf(name, path));
  out.config.architecture = opened.row->id;
  const GgufKeys keys(*file, path, std::string(name));
  TRY_VOID(opened.row->arch->from_gguf(keys, out.config, out.oddities));
  Sha256 hash;
  for (std::size_t part = 0; part < file->parts().size(); ++part) hash.update(file->header(static_cast<int>(part)));
  out.model_hash = hash.hex();
  opened.checkpoint = gguf_checkpoint(file, path, opened.row->id);
  TRY_VOID(read_text_side(file, out));
  opened.gguf = std::move(file);
  return opened;
}

}  // namespace knapsack
