// A conversation through a model's own chat template. Not for templates given as files: commands/template.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "bundle/bundle.h"

namespace knapsack {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// What tokenizer_config.json names bos_token, eos_token ...: strings, or objects with their content.
Result<json::object> special_tokens(const std::string& tokenizer_config_json, const std::string& origin);

// Adds to a template's variables what transformers always passes: special tokens, and null for tools and documents.
// What is there already stays.
void complete_variables(json::object& variables, const json::object& special);

// The text the model goes on from. `unsupported` when the model has no template; there is no other to fall back on.
Result<std::string> chat_prompt(const Bundle& bundle, std::span<const Message> messages);

}  // namespace knapsack
