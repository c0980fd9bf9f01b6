#include "text/gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "base/json.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

enum TokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's visible space

constexpr const char* kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Pretokenizer {
  std::string_view name;
  std::vector<const char*> splits;
  bool ignores_merges;
  bool adds_bos;
};

const std::vector<Pretokenizer>& pretokenizers() {
  static const std::vector<Pretokenizer> all = {
#define PRE(name, splits, ignores_merges, adds_bos) {name, splits, ignores_merges, adds_bos},
#include "text/pretokenizers.inc"
#undef PRE
  };
  return all;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// "<0x" ... ">": 0 to 255, or -1 when it is not exactly two hexadecimal digits.
int byte_of(std::string_view token) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  const int high = digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Places in a list of texts that are all different, found by the text: a third of the memory that a
// std::unordered_map of them takes.
class Places {
 public:
  Places() : slots_(1) {}
  explicit Places(std::span<const std::string_view> texts) : texts_(texts), slots_(2 * texts.size() + 1) {}

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const {
    const Slot& found = slots_[slot(text, hash(text))];
    if (found.place == free) return std::nullopt;
    return found.place;
  }
  // Gives back an earlier place with the same text; that one then stays.
  std::optional<std::int32_t> insert(std::size_t place) {
    const std::size_t own = hash(texts_[place]);
    Slot& found = slots_[slot(texts_[place], own)];
    if (found.place != free) return found.place;
    found = {.place = static_cast<std::int32_t>(place), .hash = static_cast<std::uint32_t>(own)};
    return std::nullopt;
  }

 private:
  static constexpr std::int32_t free = -1;
  struct Slot {
    std::int32_t place = free;
    std::uint32_t hash = 0;  // a part of it, so that hardly any other text is looked at
  };

  [[nodiscard]] static std::size_t hash(std::string_view text) { return std::hash<std::string_view>()(text); }

  [[nodiscard]] std::size_t slot(std::string_view text, std::size_t hash) const {
    std::size_t at = hash % slots_.size();
    while (slots_[at].place != free && (slots_[at].hash != static_cast<std::uint32_t>(hash) ||
                                        texts_[static_cast<std::size_t>(slots_[at].place)] != text))
      at = at + 1 == slots_.size() ? 0 : at + 1;
    return at;
  }

  std::span<const std::string_view> texts_;
  std::vector<Slot> slots_;
};

class Writer {
 public:
  Writer(const GgufVocab& vocab, const std::string& origin) : vocab_(vocab), origin_(origin) {}

  Result<std::string> write() {
    TRY_VOID(check());
    if (vocab_.model == "gpt2" || vocab_.model == "gemma4") return byte_pairs();
    if (vocab_.model == "llama") return sentencepiece();
    if (vocab_.model == "bert") return wordpiece();
    return unsupported(
        "{}: tokenizer.ggml.model is \"{}\"; this version reads \"gpt2\" (byte-level BPE), \"gemma4\", \"llama\" "
        "(SentencePiece "
        "with "
        "scores) and \"bert\" (WordPiece)",
        origin_, vocab_.model);
  }

 private:
  Result<void> check() {
    const std::size_t count = vocab_.tokens.size();
    if (count == 0) return bad_input("{}: tokenizer.ggml.tokens is empty", origin_);
    if (count > (std::size_t{1} << 24U)) {
      return bad_input("{}: tokenizer.ggml.tokens has {} entries; at most {} are read", origin_, count, 1 << 24);
    }
    if (!vocab_.types.empty() && vocab_.types.size() != count) {
      return bad_input("{}: tokenizer.ggml.token_type has {} entries, tokenizer.ggml.tokens has {}; both must be equal",
                       origin_, vocab_.types.size(), count);
    }
    if (!vocab_.scores.empty() && vocab_.scores.size() != count) {
      return bad_input("{}: tokenizer.ggml.scores has {} entries, tokenizer.ggml.tokens has {}; both must be equal",
                       origin_, vocab_.scores.size(), count);
    }
    spellings_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      // llama.cpp's spelling for an entry that has none, so that its id stays.
      spellings_.push_back(vocab_.tokens[i].empty() ? own(fmt::format("[EMPTY_{}]", i)) : vocab_.tokens[i]);
    }
    ids_ = Places(spellings_);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view token = spellings_[i];
      if (const std::size_t at = valid_utf8_prefix(token); at < token.size()) {
        return bad_input("{}: tokenizer.ggml.tokens[{}] is not UTF-8 at its byte {}", origin_, i, at);
      }
      const bool byte_like = token.starts_with("<0x") && token.ends_with(">") && token.size() <= 9;
      const bool plain = type(i) == kByte || (vocab_.model == "llama" && type(i) == kNormal);
      if ((type(i) == kByte || (plain && byte_like)) && byte_of(token) < 0) {
        return bad_input(
            "{}: tokenizer.ggml.tokens[{}] is {}, which is no byte; expected <0x00> to <0xFF>, two hexadecimal digits",
            origin_, i, quoted(token));
      }
      if (const auto other = ids_.insert(i)) {
        return bad_input("{}: tokenizer.ggml.tokens[{}] and [{}] are both {}; every entry must be spelled differently",
                         origin_, *other, i, quoted(token));
      }
    }
    return {};
  }

  std::string_view own(std::string text) { return own_.emplace_back(std::move(text)); }

  [[nodiscard]] std::int32_t type(std::size_t i) const { return vocab_.types.empty() ? kNormal : vocab_.types[i]; }

  [[nodiscard]] bool is_id(std::int32_t id) const {
    return id >= 0 && static_cast<std::size_t>(id) < spellings_.size();
  }

  // -- parts of a tokenizer.json

  void begin() {
    std::size_t bytes = 4096;
    for (const std::string_view token : spellings_) bytes += token.size() + 16;
    out_.reserve(bytes);
    out_ += R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
    // Phi-3's special tokens swallow the space after them; its GGUF does not say so, its placeholders tell.
    const bool phi3 = ids_.find("<|placeholder1|>") && ids_.find("<|assistant|>");
    bool first = true;
    for (std::size_t i = 0; i < spellings_.size(); ++i) {
      const std::int32_t kind = type(i);
      if (kind != kControl && kind != kUserDefined && kind != kUnknown) continue;
      const std::string_view token = spellings_[i];
      const bool rstrip = phi3 && token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
      fmt::format_to(std::back_inserter(out_), "{}{{\"id\":{},\"content\":", first ? "" : ",", i);
      append_json_string(out_, token);
      fmt::format_to(std::back_inserter(out_),
                     R"(,"single_word":false,"lstrip":false,"rstrip":{},"normalized":false,"special":{}}})", rstrip,
                     kind != kUserDefined);
      first = false;
    }
    out_ += "],";
  }

  // BOS and EOS around the text, where the file (or else its kind of tokenizer) says so.
  Result<std::string> post_processor(bool bos_by_default, std::int32_t bos, std::int32_t eos) const {
    const bool add_bos = vocab_.add_bos < 0 ? bos_by_default : vocab_.add_bos != 0;
    const bool add_eos = vocab_.add_eos > 0;
    std::string single;
    std::string pair;
    std::string tokens;
    const auto add = [&](std::int32_t id, int type_id) {
      const std::string_view spelling = spellings_[static_cast<std::size_t>(id)];
      const std::string item = fmt::format(R"({{"SpecialToken":{{"id":{},"type_id":{}}}}})", quoted(spelling), type_id);
      (type_id == 0 ? single : pair) += (type_id == 0 ? single : pair).empty() ? item : "," + item;
      if (tokens.find(fmt::format(R"("ids":[{}])", id)) == std::string::npos) {
        tokens += fmt::format(R"({}{}:{{"id":{},"ids":[{}],"tokens":[{}]}})", tokens.empty() ? "" : ",",
                              quoted(spelling), quoted(spelling), id, quoted(spelling));
      }
    };
    const auto text = [](std::string& list, const char* item) {
      list += list.empty() ? item : std::string(",") + item;
    };
    if ((!add_bos || bos < 0) && (!add_eos || eos < 0)) return std::string("null");
    for (const auto& [wanted, id, key] : {std::tuple{add_bos, bos, "bos"}, std::tuple{add_eos, eos, "eos"}}) {
      if (wanted && id >= 0 && !is_id(id)) {
        return bad_input("{}: tokenizer.ggml.{}_token_id is {}, but there are only {} tokens", origin_, key, id,
                         spellings_.size());
      }
    }
    if (add_bos && bos >= 0) add(bos, 0), add(bos, 1);
    text(single, R"({"Sequence":{"id":"A","type_id":0}})");
    text(pair, R"({"Sequence":{"id":"B","type_id":1}})");
    if (add_eos && eos >= 0) add(eos, 0), add(eos, 1);
    return fmt::format(R"({{"type":"TemplateProcessing","single":[{}],"pair":[{},{}],"special_tokens":{{{}}}}})",
                       single, single, pair, tokens);
  }

  void vocabulary() {
    out_ += "\"vocab\":{";
    for (std::size_t i = 0; i < spellings_.size(); ++i) {
      if (i != 0) out_ += ',';
      append_json_string(out_, spellings_[i]);
      fmt::format_to(std::back_inserter(out_), ":{}", i);
    }
    out_ += '}';
  }

  void merge(std::string_view left, std::string_view right) {
    if (out_.back() != '[') out_ += ',';
    out_ += '[';
    append_json_string(out_, left);
    out_ += ',';
    append_json_string(out_, right);
    out_ += ']';
  }

  // -- the models

  // Byte-level BPE, and the two that call themselves gpt2 but merge SentencePiece's spelling of the text.
  Result<std::string> byte_pairs() {
    const std::string pre = vocab_.model == "gemma4" ? vocab_.model : vocab_.pre.empty() ? "default" : vocab_.pre;
    const bool raw = pre == "gemma4" || pre == "sarvam-moe";
    const auto& all = pretokenizers();
    const auto known = std::find_if(all.begin(), all.end(), [&](const Pretokenizer& p) { return p.name == pre; });
    if (!raw && known == all.end()) {
      return unsupported("{}: tokenizer.ggml.pre is \"{}\", a pre-tokenizer that this version does not know", origin_,
                         pre);
    }
    begin();
    if (raw) {
      out_ += R"("normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},)";
      out_ += R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"[^\\n]+|[\\n]+"},"behavior":"Isolated",)";
      out_ += R"("invert":false},)";
    } else {
      // These models' tokenizer.json composes characters first; GGUF has no key that says so.
      const bool composes = pre == "qwen2" || pre == "mpt" || pre == "olmo";
      out_ += composes ? R"("normalizer":{"type":"NFC"})" : R"("normalizer":null)";
      out_ += R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[)";
      // As the models' own files say it: ByteLevel has GPT-2's words built in, Digits takes single ones.
      const bool built_in = known->splits.back() == std::string_view(kGpt2Words);
      for (std::size_t i = 0; i + (built_in ? 1 : 0) < known->splits.size(); ++i) {
        if (known->splits[i] == std::string_view(R"(\p{N})")) {
          out_ += R"({"type":"Digits","individual_digits":true},)";
          continue;
        }
        out_ += R"({"type":"Split","pattern":{"Regex":)";
        append_json_string(out_, known->splits[i]);
        out_ += R"(},"behavior":"Isolated","invert":false},)";
      }
      fmt::format_to(std::back_inserter(out_),
                     R"({{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":{}}}]}},)",
                     built_in);
    }
    // Gemma 4's files forget add_bos; llama.cpp corrects them likewise.
    TRY(const std::string post, post_processor(raw ? pre == "gemma4" : known->adds_bos, vocab_.bos, vocab_.eos));
    out_ += "\"post_processor\":" + post + ",";
    if (raw) {
      out_ += R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)";
      out_ += R"({"type":"ByteFallback"},{"type":"Fuse"}]},)";
    } else {
      out_ += R"("decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},)";
    }
    fmt::format_to(std::back_inserter(out_),
                   R"("model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
                   R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":{},"ignore_merges":{},)",
                   raw, !raw && known->ignores_merges);
    vocabulary();
    TRY_VOID(given_merges());
    out_ += "}}";
    return std::move(out_);
  }

  Result<void> given_merges() {
    out_ += ",\"merges\":[";
    Places seen(vocab_.merges);
    std::size_t bytes = out_.size();
    for (const std::string_view text : vocab_.merges) bytes += text.size() + 8;
    out_.reserve(bytes);
    std::string whole;
    for (std::size_t i = 0; i < vocab_.merges.size(); ++i) {
      const std::string_view text = vocab_.merges[i];
      const std::size_t space = text.find(' ', 1);
      if (space == std::string_view::npos || space + 1 == text.size()) {
        return bad_input("{}: tokenizer.ggml.merges[{}] is {}; expected two tokens with a space between", origin_, i,
                         is_valid_utf8(text) ? quoted(text.substr(0, 80)) : "not UTF-8");
      }
      const std::string_view left = text.substr(0, space);
      const std::string_view right = text.substr(space + 1);
      whole.assign(left).append(right);
      const auto a = ids_.find(left);
      const auto b = ids_.find(right);
      const auto ab = ids_.find(whole);
      if (!a || !b || !ab) {
        const std::string_view absent = !a ? left : !b ? right : std::string_view(whole);
        return bad_input("{}: tokenizer.ggml.merges[{}] needs the token {}, which tokenizer.ggml.tokens does not have",
                         origin_, i, is_valid_utf8(absent) ? quoted(absent.substr(0, 80)) : "(not UTF-8)");
      }
      if (!seen.insert(i)) merge(left, right);  // the first of equal ones has the rank
    }
    out_ += ']';
    return {};
  }

  // SentencePiece's BPE: of all neighbours whose union is a token, the union with the best score is made first. The
  // same order as a list of merges: every way to cut each token into two tokens, best score first.
  Result<std::string> sentencepiece() {
    if (vocab_.scores.empty()) {
      return bad_input("{}: tokenizer.ggml.scores is missing; a \"llama\" vocabulary needs one per token", origin_);
    }
    for (std::size_t i = 0; i < vocab_.scores.size(); ++i) {
      if (std::isnan(vocab_.scores[i])) return bad_input("{}: tokenizer.ggml.scores[{}] is not a number", origin_, i);
    }
    const bool space_prefix = vocab_.add_space_prefix != 0;
    begin();
    const char* replace = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
    if (space_prefix) {
      fmt::format_to(std::back_inserter(out_),
                     R"("normalizer":{{"type":"Sequence","normalizers":[{{"type":"Prepend","prepend":"▁"}},{}]}},)",
                     replace);
    } else {
      fmt::format_to(std::back_inserter(out_), "\"normalizer\":{},", replace);
    }
    out_ += "\"pre_tokenizer\":null,";
    TRY(const std::string post, post_processor(true, vocab_.bos < 0 ? 1 : vocab_.bos, vocab_.eos < 0 ? 2 : vocab_.eos));
    out_ += "\"post_processor\":" + post + ",";
    out_ += R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)";
    out_ += R"({"type":"ByteFallback"},{"type":"Fuse"})";
    if (space_prefix) out_ += R"(,{"type":"Strip","content":" ","start":1,"stop":0})";
    out_ += "]},";
    const std::int32_t unk = unknown_token();
    fmt::format_to(std::back_inserter(out_),
                   R"("model":{{"type":"BPE","dropout":null,"unk_token":{},"continuing_subword_prefix":null,)"
                   R"("end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":true,"ignore_merges":false,)",
                   unk < 0 ? std::string("null") : quoted(spellings_[static_cast<std::size_t>(unk)]));
    vocabulary();
    merges_by_score();
    out_ += "}}";
    return std::move(out_);
  }

  [[nodiscard]] std::int32_t unknown_token() const {
    for (std::size_t i = 0; i < vocab_.types.size(); ++i) {
      if (vocab_.types[i] == kUnknown) return static_cast<std::int32_t>(i);
    }
    if (is_id(vocab_.unk)) return vocab_.unk;
    return 0;
  }

  void merges_by_score() {
    struct Merge {
      float score;
      std::int32_t token;
      std::uint32_t left_bytes, left_characters, right_characters;
    };
    std::vector<Merge> merges;
    merges.reserve(spellings_.size() * 2);
    std::size_t bytes = out_.size() + 64;
    std::vector<std::uint32_t> cuts;
    for (std::size_t i = 0; i < spellings_.size(); ++i) {
      const std::string_view token = spellings_[i];
      cuts.clear();
      for (std::size_t at = 0; at < token.size(); at += utf8_character(token, at)) {
        cuts.push_back(static_cast<std::uint32_t>(at));
      }
      for (std::uint32_t k = 1; k < cuts.size(); ++k) {
        if (!ids_.find(token.substr(0, cuts[k])) || !ids_.find(token.substr(cuts[k]))) continue;
        merges.push_back(
            {vocab_.scores[i], static_cast<std::int32_t>(i), cuts[k], k, static_cast<std::uint32_t>(cuts.size()) - k});
        bytes += token.size() + 8;
      }
    }
    // Where scores are equal: the order of Hugging Face's own converter.
    std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
      return std::tie(b.score, b.left_characters, b.right_characters, a.token) <
             std::tie(a.score, a.left_characters, a.right_characters, b.token);
    });
    out_.reserve(bytes);
    out_ += ",\"merges\":[";
    for (const Merge& m : merges) {
      const std::string_view token = spellings_[static_cast<std::size_t>(m.token)];
      merge(token.substr(0, m.left_bytes), token.substr(m.left_bytes));
    }
    out_ += ']';
  }

  // BERT's WordPiece. GGUF spells the beginning of a word with U+2581, tokenizer.json the continuation with "##".
  Result<std::string> wordpiece() {
    const auto special = [&](std::int32_t id, std::string_view spelling) {
      if (is_id(id)) return id;
      const auto found = ids_.find(spelling);
      return found.value_or(-1);
    };
    const std::int32_t bos = special(vocab_.bos, "[CLS]");
    const std::int32_t eos = special(vocab_.eos, "[SEP]");
    const std::int32_t unk = special(vocab_.unk, "[UNK]");
    if (unk < 0) return bad_input("{}: a \"bert\" vocabulary needs an unknown token ([UNK]), and has none", origin_);
    ids_ = Places();  // of the spellings, which change now
    for (std::size_t i = 0; i < spellings_.size(); ++i) {
      std::string_view& token = spellings_[i];
      if (token.starts_with(kSpace) && token.size() > kSpace.size()) {
        token.remove_prefix(kSpace.size());
      } else if (type(i) == kNormal && !(token.starts_with("[") && token.ends_with("]"))) {
        token = own("##" + std::string(token));
      }
    }
    begin();
    out_ +=
        R"("normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,)";
    out_ += R"("lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)";
    if (bos >= 0 && eos >= 0) {
      const std::string_view cls = spellings_[static_cast<std::size_t>(bos)];
      const std::string_view sep = spellings_[static_cast<std::size_t>(eos)];
      fmt::format_to(std::back_inserter(out_), R"({{"type":"BertProcessing","sep":[{},{}],"cls":[{},{}]}},)",
                     quoted(sep), eos, quoted(cls), bos);
    } else {
      out_ += "null,";
    }
    out_ += R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)";
    fmt::format_to(std::back_inserter(out_),
                   R"("model":{{"type":"WordPiece","unk_token":{},"continuing_subword_prefix":"##",)"
                   R"("max_input_chars_per_word":100,)",
                   quoted(spellings_[static_cast<std::size_t>(unk)]));
    vocabulary();
    out_ += "}}";
    return std::move(out_);
  }

  const GgufVocab& vocab_;
  const std::string& origin_;
  std::vector<std::string_view> spellings_;
  Places ids_;                   // by the spelling in the file
  std::deque<std::string> own_;  // spellings that the file does not have
  std::string out_;
};

}  // namespace

Result<std::string> tokenizer_json_from(const GgufVocab& vocab, const std::string& origin) {
  return Writer(vocab, origin).write();
}

}  // namespace knapsack
