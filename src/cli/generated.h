// What is said about a generation: the figures line on stderr, and the fields of --json.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "runtime/session.h"

namespace knapsack {

// A token for a person: its text in quotes, or its spelling in the vocabulary where it is only a part of a character.
std::string shown_token(const Tokenizer& tokenizer, std::int32_t id);

double prefill_tokens_per_s(const Completion& completion);
double decode_tokens_per_s(const Completion& completion);

// A line for stderr: "TTFT 35 ms, prefill 12 tokens at 340.0 tokens/s, decode 64 tokens at 81.2 tokens/s, the model
// ended", the seed where there was one.
std::string figures(const Completion& completion, const GenerateOptions& options);

// text, token_ids, prompt_tokens, completion_tokens, finish_reason, ttft_ms, ... and logprobs where there are any.
// tokenizer may be null.
json::object completion_json(const Completion& completion, const Tokenizer* tokenizer);

// Generated text on its way to a terminal: control characters a model may write are made harmless, and what lies in
// <think> ... </think> is dimmed. To a pipe it passes unchanged.
class ScreenText {
 public:
  // thinking: the prompt ended inside a <think>.
  ScreenText(bool terminal, bool colour, bool thinking);
  std::string push(std::string_view text);
  std::string finish();  // what was held back, and colours off

 private:
  bool terminal_;
  bool colour_;
  bool dim_;
  bool started_ = false;
  std::string pending_;  // may be the start of a tag
};

}  // namespace knapsack
