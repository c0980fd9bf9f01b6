// One text in the making: picks each token from the logits, turns it into text, and knows when it ends: an end token, a
// stop string, the tokens asked for, the context. Session has one at a time, Batch one a sequence.
// Not for computing logits: engine.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "runtime/completion.h"
#include "runtime/engine.h"
#include "runtime/stop_strings.h"

namespace knapsack {

class Writer {
 public:
  // Checks prompt and options. An empty prompt stands for BOS. Borrows the engine. on_text is copied.
  static Result<Writer> create(Engine& engine, Ids prompt, const GenerateOptions& options, const OnText& on_text);

  // Prompt and what was written so far.
  [[nodiscard]] Ids history() const { return history_; }
  // Nothing more is to be computed; true from the start where no token is wanted or none fits.
  [[nodiscard]] bool ended() const { return ended_; }
  // How many more tokens may be written.
  [[nodiscard]] std::int64_t left() const { return most_ - static_cast<std::int64_t>(result_.ids.size()); }

  // logits: of the place behind history's last token, valid until take() is done. pick() chooses the next token, and
  // may run beside the pick() of other writers; take() then appends it, or ends the text. pick() allocates nothing;
  // take() only with the first token, and for logprobs.
  void pick(std::span<const float> logits);
  Result<void> take();

  // Ends a text that has not ended by itself as Finish::cancelled, and hands over the result.
  Completion finish();
  [[nodiscard]] Completion& result() { return result_; }  // for figures that the caller knows

 private:
  Writer(Engine& engine, Ids prompt, const GenerateOptions& options, const OnText& on_text, std::int64_t most);
  Result<void> begin_text();
  void end(Finish finish);
  bool push_text(std::int32_t id);
  void emit();

  Engine* engine_;
  std::vector<std::int32_t> history_;
  std::vector<std::string> stop_;
  int logprobs_;
  std::int64_t max_tokens_, most_;
  OnText on_text_;
  Sampler sampler_;
  StopStrings stops_;
  std::vector<std::int32_t> end_ids_;
  std::optional<StreamDecoder> decoder_;  // made with the first token, so that prefill does not wait for the tokenizer
  std::string fresh_;                     // text of one token
  Result<std::int32_t> picked_ = 0;
  std::span<const float> picked_from_;
  bool ended_ = false;
  Completion result_;
  Stopwatch since_call_, since_first_;
};

}  // namespace knapsack
