#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/json.h"
#include "import/convert_parts.h"
#include "text/gguf_vocab.h"

namespace knapsack {
namespace {

constexpr std::int32_t normal = 1;
constexpr std::int32_t unknown = 2;
constexpr std::int32_t control = 3;
constexpr std::int32_t user_defined = 4;
constexpr std::int32_t unused = 5;
constexpr std::int32_t byte_kind = 6;
// Of a token no merge makes: below every merge's rank, so that it is never put together.
constexpr float unmerged_score = -1e6F;

// GGUF's names of pre-tokenizers that are recognised by their regular expressions.
constexpr std::array<const char*, 8> known_pre{"qwen2",          "llama-bpe", "deepseek-v3", "deepseek-llm",
                                               "deepseek-coder", "smollm",    "tekken",      "gpt-2"};

const json::value* field(const json::value& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}

std::string_view text_of(const json::value& value, std::string_view key) {
  const json::value* found = field(value, key);
  return found != nullptr && found->is_string() ? std::string_view(found->get_string()) : std::string_view();
}

// \x{4E00} as the character itself: files write it either way.
std::string without_escapes(std::string_view regex) {
  std::string out;
  for (std::size_t i = 0; i < regex.size(); ++i) {
    const std::size_t end = regex.substr(i).starts_with("\\x{") ? regex.find('}', i) : std::string_view::npos;
    std::uint32_t code = 0;
    if (end == std::string_view::npos ||
        std::from_chars(regex.data() + i + 3, regex.data() + end, code, 16).ptr != regex.data() + end || code < 0x80 ||
        code > 0xffff) {
      out += regex[i];
      continue;
    }
    if (code >= 0x800) out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>((code >= 0x800 ? 0x80 | ((code >> 6) & 0x3f) : 0xc0 | (code >> 6)));
    out += static_cast<char>(0x80 | (code & 0x3f));
    i = end;
  }
  return out;
}

// What a pre-tokenizer does: the regular expressions by which it splits, in order, one a line.
void describe(const json::value& pre, std::string& out) {
  constexpr const char* words_of_gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const auto flag = [&](const char* key, bool otherwise) {
    const json::value* value = field(pre, key);
    return value != nullptr && value->is_bool() ? value->get_bool() : otherwise;
  };
  const std::string_view type = text_of(pre, "type");
  if (type == "Sequence") {
    if (const json::value* list = field(pre, "pretokenizers"); list != nullptr && list->is_array())
      for (const json::value& part : list->get_array()) describe(part, out);
  } else if (type == "Split") {
    const json::value* pattern = field(pre, "pattern");
    out += without_escapes(pattern == nullptr ? "" : text_of(*pattern, "Regex")) + "\n";
  } else if (type == "Digits") {
    out += flag("individual_digits", false) ? "\\p{N}\n" : "\\p{N}+\n";
  } else if (type == "ByteLevel") {
    if (flag("use_regex", true)) out += fmt::format("{}\n", words_of_gpt2);
  } else {
    out += fmt::format("{}\n", type);
  }
}

std::string described(const json::value& tokenizer) {
  std::string out;
  if (const json::value* pre = field(tokenizer, "pre_tokenizer"); pre != nullptr) describe(*pre, out);
  return out;
}

// The name whose own tokenizer.json splits text the same way.
Result<std::string> pre_name(const json::value& tokenizer) {
  const std::string meant = described(tokenizer);
  for (const char* name : known_pre) {
    GgufVocab probe;
    probe.model = "gpt2";
    probe.pre = name;
    probe.tokens = {"a", "b", "ab"};
    probe.types = {normal, normal, normal};
    probe.merges = {"a b"};
    const auto text = tokenizer_json_from(probe, name);
    if (!text) continue;
    TRY(const json::value made, parse_json(*text, name));
    if (described(made) == meant) return std::string(name);
  }
  std::string shown = meant.substr(0, 200);
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  return unsupported("convert: the tokenizer splits text in a way no GGUF name is known for here: {}", shown);
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
};

bool is_byte(std::string_view token) { return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>'); }

Result<void> read_tokens(const json::value& tokenizer, const json::value& model, std::int64_t rows, Vocabulary& out) {
  const json::value* vocab = field(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return bad_input("tokenizer.json: model.vocab: expected an object");
  out.tokens.resize(static_cast<std::size_t>(rows));
  out.types.assign(out.tokens.size(), unused);
  const auto put = [&](std::string_view token, const json::value& id, std::int32_t type) -> Result<void> {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= rows)
      return bad_input("tokenizer.json: \"{}\": expected an id below {} (rows of the embeddings), found {}", token,
                       rows, json::serialize(id));
    const auto i = static_cast<std::size_t>(id.get_int64());
    out.tokens[i] = token;
    out.types[i] = type;
    return {};
  };
  const std::string_view unk = text_of(model, "unk_token");
  for (const auto& [token, id] : vocab->get_object())
    TRY_VOID(put(token, id, token == unk && !unk.empty() ? unknown : is_byte(token) ? byte_kind : normal));
  if (const json::value* added = field(tokenizer, "added_tokens"); added != nullptr && added->is_array())
    for (const json::value& token : added->get_array()) {
      const json::value* id = field(token, "id");
      const json::value* special = field(token, "special");
      const bool is_special = special != nullptr && special->is_bool() && special->get_bool();
      const std::string_view content = text_of(token, "content");
      if (id != nullptr)
        TRY_VOID(put(content, *id, content == unk && !unk.empty() ? unknown : is_special ? control : user_defined));
    }
  for (std::size_t i = 0; i < out.tokens.size(); ++i)
    if (out.types[i] == unused) out.tokens[i] = fmt::format("[PAD{}]", i);
  return {};
}

// merges come as "a b" or as ["a", "b"].
Result<void> read_merges(const json::value& model, Vocabulary& out) {
  const json::value* merges = field(model, "merges");
  std::map<std::string, float> rank;
  if (merges != nullptr && merges->is_array()) {
    for (const json::value& merge : merges->get_array()) {
      std::string left;
      std::string right;
      if (merge.is_string()) {
        const std::string_view both(merge.get_string());
        const std::size_t space = both.find(' ');
        left = both.substr(0, space);
        right = space == std::string_view::npos ? "" : both.substr(space + 1);
      } else if (merge.is_array() && merge.get_array().size() == 2 && merge.get_array()[0].is_string() &&
                 merge.get_array()[1].is_string()) {
        left = std::string(merge.get_array()[0].get_string());
        right = std::string(merge.get_array()[1].get_string());
      }
      if (left.empty() || right.empty())
        return bad_input("tokenizer.json: model.merges[{}]: expected a pair", out.merges.size());
      rank.try_emplace(left + right, -static_cast<float>(out.merges.size()));
      out.merges.push_back(fmt::format("{} {}", left, right));
    }
  }
  for (const std::string& token : out.tokens) {
    const auto it = rank.find(token);
    out.scores.push_back(it == rank.end() ? unmerged_score : it->second);
  }
  return {};
}

bool mentions(const json::value* part, std::string_view what) {
  return part != nullptr && json::serialize(*part).find(what) != std::string::npos;
}

Result<void> write_special(const Imported& model, const Vocabulary& vocabulary, GgufWriter& writer) {
  TRY(const json::object config, parse_json_object(model.tokenizer_config_json, "tokenizer_config.json"));
  const auto id_of = [&](const char* key) -> std::int64_t {
    const json::value* token = config.if_contains(key);
    if (token != nullptr && token->is_object()) token = token->get_object().if_contains("content");
    if (token == nullptr || !token->is_string()) return -1;
    const auto it =
        std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), std::string_view(token->get_string()));
    return it == vocabulary.tokens.end() ? -1 : it - vocabulary.tokens.begin();
  };
  const auto put = [&](const char* key, std::int64_t id) {
    if (id >= 0) writer.add_u32(fmt::format("tokenizer.ggml.{}", key), static_cast<std::uint32_t>(id));
  };
  std::int64_t eos = id_of("eos_token");
  std::int64_t eot = -1;
  for (const auto id : model.eos_ids) {
    if (id >= model.config.vocab) continue;  // no such token; a GGUF that named it would be refused
    if (eos < 0) eos = id;
    if (id != eos && eot < 0) eot = id;
  }
  put("bos_token_id", id_of("bos_token"));
  put("eos_token_id", eos);
  put("eot_token_id", eot);
  put("padding_token_id", id_of("pad_token"));
  put("unknown_token_id", id_of("unk_token"));
  for (const char* key : {"add_bos_token", "add_eos_token"})
    if (const json::value* flag = config.if_contains(key); flag != nullptr && flag->is_bool())
      writer.add_bool(fmt::format("tokenizer.ggml.{}", key), flag->get_bool());
  return {};
}

}  // namespace

Result<void> write_tokenizer_keys(const Imported& model, GgufWriter& writer, std::vector<std::string>& warnings) {
  if (!model.tokenizer_json) {
    warnings.emplace_back("no tokenizer.json: the GGUF has no vocabulary (llama.cpp's no_vocab)");
    writer.add_string("tokenizer.ggml.model", "no_vocab");
    return {};
  }
  TRY(const std::string text, model.tokenizer_json());
  TRY(const json::value tokenizer, parse_json(text, "tokenizer.json"));
  const json::value* inner = field(tokenizer, "model");
  if (inner == nullptr || text_of(*inner, "type") != "BPE")
    return unsupported("convert: tokenizer.json: model type \"{}\" is not written here; known: BPE",
                       inner == nullptr ? "" : text_of(*inner, "type"));
  Vocabulary vocabulary;
  TRY_VOID(read_tokens(tokenizer, *inner, model.config.vocab, vocabulary));
  TRY_VOID(read_merges(*inner, vocabulary));
  const json::value* fallback = field(*inner, "byte_fallback");
  const bool sentencepiece = fallback != nullptr && fallback->is_bool() && fallback->get_bool();
  if (sentencepiece) {
    writer.add_string("tokenizer.ggml.model", "llama");
    writer.add_string("tokenizer.ggml.pre", "default");
    writer.add_f32s("tokenizer.ggml.scores", vocabulary.scores);
    const bool prefix = mentions(field(tokenizer, "normalizer"), "\"Prepend\"") ||
                        mentions(field(tokenizer, "pre_tokenizer"), "\"Metaspace\"");
    writer.add_bool("tokenizer.ggml.add_space_prefix", prefix);
  } else {
    if (!mentions(field(tokenizer, "pre_tokenizer"), "\"ByteLevel\""))
      return unsupported("convert: tokenizer.json: BPE that is neither byte-level nor with byte fallback");
    TRY(const std::string pre, pre_name(tokenizer));
    writer.add_string("tokenizer.ggml.model", "gpt2");
    writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.merges", vocabulary.merges);
  }
  writer.add_strings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add_i32s("tokenizer.ggml.token_type", vocabulary.types);
  TRY_VOID(write_special(model, vocabulary, writer));
  if (!model.chat_template.empty()) writer.add_string("tokenizer.chat_template", model.chat_template);
  return {};
}

}  // namespace knapsack
