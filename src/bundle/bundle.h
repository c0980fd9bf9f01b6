// What crosses to the runtime: programs, weights, tokenizer, template, generation defaults, identity.
// Here in memory; running a bare checkpoint makes the same thing as a packed bundle will.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace knapsack {

// Defaults a checkpoint ships in generation_config.json (or none).
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<bool> do_sample;
};

struct Bundle {
  std::string name;          // file or folder name, without the path
  std::string architecture;  // "llama", "deepseek_v3", ...
  std::string model_hash;    // sha256 over header and tensor table, hex
  std::int64_t vocab = 0;    // width of the logits
  std::int64_t trained_ctx = 0;
  std::shared_ptr<const Program> prefill;  // max_tokens = chunk
  std::shared_ptr<const Program> decode;   // few rows, all of them selected: one of each sequence, or several of one
  // tokenizer.json's text; may be slow, called once, from the tokenizer's own thread. Empty when there is none.
  std::function<Result<std::string>()> tokenizer_json;
  std::int64_t tokenizer_bytes = 0;   // about what making a tokenizer of it takes, that text included
  std::string tokenizer_config_json;  // "{}" when absent: bos/eos/pad tokens, add_bos_token
  std::string chat_template;          // empty when there is none
  std::vector<std::int32_t> eos_ids;  // end tokens, from generation_config or the GGUF
  GenerationDefaults defaults;
  std::vector<std::string> oddities;
};

}  // namespace knapsack
