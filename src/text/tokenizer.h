// The one tokenizer: Hugging Face's library behind bridge/. A GGUF's vocabulary is first made into a tokenizer.json
// (gguf_vocab.h). Thread-safe once made.
// Not for: chat templates (chat_template.h), finding the tokenizer of a model (import/).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace knapsack {

// What making a tokenizer takes, by what it is made of: a tokenizer.json's text, and tables beside it.
struct TokenizerSize {
  std::int64_t text = 0, tokens = 0, spellings = 0 /* bytes of all tokens */, merges = 0;
  [[nodiscard]] std::int64_t bytes() const;
};

class Tokenizer {
 public:
  // json: the text of a tokenizer.json; origin heads error messages.
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view json, const std::string& origin);
  virtual ~Tokenizer() = default;

  // Special tokens that stand in the text are recognised as Hugging Face does. add_special: also those that the
  // post-processor adds (BOS ...). Text that is not UTF-8 is refused with the byte offset.
  [[nodiscard]] virtual Result<std::vector<std::int32_t>> encode(std::string_view text, bool add_special) const = 0;
  // encode() gives no fewer: found by counting characters, so that a text far too long is known for one at once. 0
  // where nothing can be said.
  [[nodiscard]] virtual std::int64_t least_tokens(std::string_view text) const = 0;
  // Ids that the vocabulary does not have are skipped, as Hugging Face does.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special) const = 0;
  [[nodiscard]] virtual std::string piece(
      std::int32_t id) const = 0;  // the vocabulary's own spelling; "" when no such id
  [[nodiscard]] virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  [[nodiscard]] virtual bool is_special(std::int32_t id) const = 0;
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;  // how many tokens there are, added ones included
  [[nodiscard]] virtual std::int32_t largest_id() const = 0;  // vocab_size() - 1 unless the vocabulary has holes

 protected:
  friend class StreamDecoder;
  class Stream {
   public:
    virtual ~Stream() = default;
    virtual std::string push(std::int32_t id) = 0;
    virtual std::string finish() = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<Stream> open_stream(bool skip_special) const = 0;
};

// Turns ids into text as they come, in time linear in the number of ids. What push() has returned so far, plus
// finish(), equals decode() of all ids; no half character is ever returned. Kept back is only what a later token can
// still change: an unfinished character, and with SentencePiece's byte fallback a run of byte tokens, which is text or
// U+FFFDs as a whole. After finish() a new text may start.
class StreamDecoder {
 public:
  StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  std::string push(std::int32_t id);
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::unique_ptr<Tokenizer::Stream> stream_;
};

}  // namespace knapsack
