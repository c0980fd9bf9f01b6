// A GGUF's embedded vocabulary, made into the text of an equivalent tokenizer.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace knapsack {

// Values of tokenizer.ggml.* as read; ids are -1 and flags unset (-1) when the key is absent. Tokens and merges stay
// where they are, in the file: there are hundreds of thousands of them.
struct GgufVocab {
  std::string model;  // "gpt2", "llama", ...
  std::string pre;    // pre-tokenizer name: "qwen2", "llama-bpe", "smollm", "deepseek-r1-qwen", ...
  std::vector<std::string_view> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;  // 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte
  std::vector<std::string_view> merges;
  std::int32_t bos = -1, eos = -1, unk = -1, pad = -1, eot = -1, eom = -1;
  int add_bos = -1, add_eos = -1, add_space_prefix = -1, remove_extra_whitespaces = -1;
};

// Unknown model or pre-tokenizer names are `unsupported`, by name; malformed byte tokens and sizes that disagree are
// `bad_input`. origin heads messages.
Result<std::string> tokenizer_json_from(const GgufVocab& vocab, const std::string& origin);

}  // namespace knapsack
