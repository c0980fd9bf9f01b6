// Speculative decoding: tokens are guessed cheaply, and one step of the model looks at several guesses at once, which
// costs little more than a step of one token as the weights are read once. The sampler then takes its token from each
// place's logits exactly as without guesses, for as long as that token is the one guessed. A row's logits do not depend
// on the rows computed with it, so the text is the same, bit for bit, for every sampler and seed.
// Guesses come from the text itself (what followed the last time these tokens stood there) and from a small model.
// How many are made is decided by what was measured: DraftPace.
// Not for computing them with the model, nor for accepting them: session.cc.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/engine.h"

namespace knapsack {

// Where a guess comes from: repeats by how many tokens before the guess agree; the text that was being repeated when
// one token came out otherwise (replaced: it goes on behind that); the draft model. Each has a rate of success of its
// own.
enum class DraftSource : std::uint8_t { repeat_2, repeat_3, repeat_4, repeat_6, repeat_10, repeat_16, replaced, model };
inline constexpr std::size_t draft_sources = 8;

// Decides how many tokens to guess. A pure function of what it is told.
class DraftPace {
 public:
  explicit DraftPace(std::int64_t rows);  // the most rows of a step
  struct Choice {
    std::int64_t length = 0;  // 0: do not guess
    double gain = 1;          // tokens a time expected, relative to a step of one token
  };
  // token_ms: what the guessing itself costs for each token.
  [[nodiscard]] Choice choose(DraftSource source, std::int64_t most, double token_ms = 0) const;
  // A step of `rows` rows (the first is no guess) took `ms`.
  void stepped(std::int64_t rows, double ms);
  // Of `drafted` guesses the first `accepted` were right, and the next one, if any, was wrong.
  void judged(DraftSource source, std::int64_t drafted, std::int64_t accepted);

 private:
  [[nodiscard]] double cost(std::int64_t rows) const;  // of a step, in steps of one row

  struct Record {
    double right, wrong;  // counts that fade
  };
  double step_ms_ = 0;        // of one row; 0: not known yet
  std::vector<double> cost_;  // by rows, in steps of one row; 0: not seen yet
  std::array<Record, draft_sources> records_;
};

// Finds repeats. Memory is for `ctx` tokens, taken when made.
class RepeatFinder {
 public:
  explicit RepeatFinder(std::int64_t ctx);
  struct Repeat {
    std::int64_t length = 0;  // tokens before the guess that agree, at most 32; 0: there is none
    std::int64_t next = 0;    // index in the history of what followed then
  };
  // history: that of the last call with tokens appended, or another one (then it is read anew).
  Repeat find(Ids history);
  void reset() { seen_ = 0; }

 private:
  [[nodiscard]] std::size_t bucket(std::int32_t a, std::int32_t b) const;
  std::vector<std::int32_t> last_;      // by hash of two tokens: one more than the index behind them, 0 for none
  std::vector<std::int32_t> previous_;  // by index: the one before of the same hash
  std::int64_t seen_ = 0;               // tokens of the history that are in the tables
};

// Checks that a token's id means the same to both models.
Result<void> check_same_vocabulary(Engine& model, Engine& draft);

class Speculation {
 public:
  // lookup: guess from the text. draft: null, or the small model (its own KV cache); at least one of the two.
  // guesses: -1, or how many to make whatever they cost.
  Speculation(const Engine& model, bool lookup, std::unique_ptr<Engine> draft, std::int64_t guesses);

  // A new text begins.
  void begin();
  // Guesses for what follows `history`, at most `most`; empty when guessing would not pay.
  Ids propose(Ids history, std::int64_t most);
  // What the model made of it: a step of 1 + drafted rows took `ms`. Called after every step, also without guesses.
  void stepped(std::int64_t drafted, double ms) { pace_.stepped(1 + drafted, ms); }
  void judged(std::int64_t drafted, std::int64_t accepted);
  [[nodiscard]] std::size_t arena_bytes() const { return draft_ == nullptr ? 0 : draft_->arena_bytes(); }
  [[nodiscard]] std::size_t kv_bytes() const { return draft_ == nullptr ? 0 : draft_->kv_bytes(); }

 private:
  [[nodiscard]] DraftPace::Choice choose(DraftSource source, std::int64_t most) const;
  void repeat(Ids history, std::int64_t from, std::int64_t count);
  void ask_draft(Ids history, std::int64_t count);

  DraftPace pace_;
  std::unique_ptr<RepeatFinder> finder_;
  std::unique_ptr<Engine> draft_;
  std::int64_t vocab_;  // of the model
  std::int64_t most_;   // guesses that a step has room for
  std::int64_t guesses_wanted_;
  double draft_token_ms_ = 0;  // of one token of the draft model
  DraftSource source_ = DraftSource::model;
  std::int64_t from_ = 0;      // place in the history that the last guesses came from, unless from the draft
  std::int64_t replaced_ = 0;  // where a repeat goes on if just one token was another; 0: nowhere
  std::vector<std::int32_t> guesses_;
};

}  // namespace knapsack
