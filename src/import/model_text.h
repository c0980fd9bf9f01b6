// What a checkpoint holds beside its weights and configuration: tokenizer, chat template, special and end tokens.
// Read without either of those, so that `tokenize` and `template` work on a folder with nothing else in it.
// Not for making a tokenizer: text/ does that from what tokenizer_json() gives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/gguf.h"
#include "import/fields.h"

namespace knapsack {

struct ModelText {
  std::function<Result<std::string>()> tokenizer_json;  // null: there is no tokenizer. May be slow; thread-safe
  std::string tokenizer_kind;                // "BPE (qwen2)", "SentencePiece", "tokenizer.json (Qwen2Tokenizer)"
  std::int64_t tokenizer_bytes = 0;          // about what making it takes, text and tables together
  std::string tokenizer_config_json = "{}";  // of a GGUF: made from its keys
  std::string chat_template;                 // empty: none
  std::string generation_config_json = "{}";
  std::int64_t tokens = -1;           // of a GGUF's vocabulary
  std::vector<std::int32_t> eos_ids;  // each once
  std::vector<std::string> oddities;
};

// path: a GGUF, a folder, or a tokenizer.json by itself.
Result<ModelText> read_model_text(const std::string& path);
// Also checks what is cheap to check of the vocabulary: types and lengths of its arrays, the spelling of byte tokens.
Result<ModelText> gguf_model_text(const std::shared_ptr<const GgufFile>& file, const std::string& path);
// config: config.json's fields, for end tokens that only it names; null: not read.
Result<ModelText> folder_model_text(const std::string& folder, const Fields* config);

}  // namespace knapsack
