// Several texts decoded together: a step reads the weights once and gives every running text its next token. Texts join
// and leave between steps. The tokens of each are, bit for bit, those that it would have alone in a Session.
// Not thread-safe: one thread drives it. Not for speculation: the rows of a step serve other texts better.
//
//   TRY(auto bundle, open_bundle(path, {.decode_rows = 8}));
//   TRY(auto batch, Batch::create(bundle, {.slots = 8, .ctx = 2048}));
//   TRY(const auto slot, batch->join(prompt, options, on_text));
//   while (!batch->ended(slot)) batch->step();
//   TRY(const Completion completion, batch->leave(slot));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/completion.h"
#include "runtime/engine.h"
#include "runtime/writer.h"

namespace knapsack {

struct BatchOptions {
  std::int64_t slots = 8;  // texts at a time: at most the rows of the bundle's decode program
  std::int64_t ctx = 0;    // of each; 0: usual_ctx()
  DType kv = DType::F16;
  int threads = 0;
  bool exact = EngineOptions{}.exact;
  std::optional<Isa> isa{};
  bool load_tokenizer = true;
  std::int64_t prefill_tokens = 0;  // of a prompt computed in one step, beside which the other texts wait; 0: a chunk
};

class Batch {
 public:
  static Result<std::unique_ptr<Batch>> create(std::shared_ptr<const Bundle> bundle, const BatchOptions& options);

  TokenizerResult tokenizer() { return engine_->tokenizer(); }
  [[nodiscard]] const Bundle& bundle() const { return engine_->bundle(); }
  [[nodiscard]] std::int64_t ctx() const { return engine_->ctx(); }
  [[nodiscard]] std::int64_t slots() const { return engine_->slots(); }
  [[nodiscard]] std::size_t kv_bytes() const { return engine_->kv_bytes(); }
  [[nodiscard]] std::size_t arena_bytes() const { return engine_->arena_bytes(); }

  // A text joins; its slot, which stays its own until it leaves. Of the free slots it gets the one that holds most of
  // its prompt already. No slot is free: out_of_resource. Prompt and options are as for Session::generate.
  Result<std::int32_t> join(Ids prompt, const GenerateOptions& options, const OnText& on_text);
  [[nodiscard]] std::int64_t taken() const;  // slots

  // At most prefill_tokens of the prompt that waits longest, then one token of every text whose prompt is done. False:
  // there was nothing to do. Allocates nothing, but for the first token of a text and for logprobs.
  bool step();

  // The text needs no more steps: it ended, or failed (leave() says why).
  [[nodiscard]] bool ended(std::int32_t slot) const;
  // Frees the slot and gives what there is: Finish::cancelled when the text had not ended. A text of its own that fails
  // (damaged weights) does not disturb the others.
  Result<Completion> leave(std::int32_t slot);

 private:
  struct Text {
    Writer writer;
    std::int64_t order = 0;  // of joining
    std::int64_t known = 0;  // tokens of the prompt that the KV cache holds
    bool decoding = false;   // the prompt is done; the last token of the history is to be run
    std::optional<Error> failure{};
  };
  Batch(std::unique_ptr<Engine> engine, std::int64_t prefill_tokens);
  [[nodiscard]] const Text& text(std::int32_t slot) const;
  void prefill(Text& text, std::int32_t slot);
  void decode();
  static void take(Text& text);

  std::unique_ptr<Engine> engine_;
  std::int64_t prefill_tokens_;
  std::int64_t joined_ = 0;
  std::vector<std::unique_ptr<Text>> texts_;  // by slot; null: free
  std::vector<std::int32_t> slots_, ids_;     // of a decode step
};

}  // namespace knapsack
