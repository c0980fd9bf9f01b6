// From logits to the next token. Deterministic: the same logits, options and history give the same token on every
// machine and thread count (an own random generator and own exp and log, see exact_math.h; nothing from <random>'s
// unspecified distributions, nothing from the machine's libm).
//
// The order, which is llama.cpp's default one:
//   1. logit bias                 added; -inf bans a token, also for everything below
//   2. repetition, frequency, presence penalties, over the last `penalty_window` tokens of the history:
//        logit > 0 ? logit / repetition : logit * repetition;  then - count * frequency - presence
//   3. DRY: for the longest earlier repeat of the history's end that a token would continue, of length n >=
//      dry_allowed_length:  logit - dry_multiplier * dry_base ^ (n - dry_allowed_length)
//   4. temperature 0: the highest logit, ties to the lowest id. Everything below is then unused.
//   5. mirostat 2: temperature, then tokens more surprising than mu bits are dropped (the best one always stays);
//      after the draw mu -= eta * (surprise - tau), mu starting at 2 tau. Steps 6 to 9 are then unused.
//   6. top_k          the k highest logits
//   7. typical_p      the tokens whose surprise is nearest to the entropy, up to this mass (always one)
//   8. top_p, min_p   the most likely tokens up to this mass (always one); those with p >= min_p * the best p.
//                     Each filter sees probabilities at temperature 1, renormalised over what the former left.
//   9. temperature, and one draw. Every step that draws uses exactly one number of the generator.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack {

struct SamplerOptions {
  float temperature = 0;  // 0: greedy
  int top_k = 0;          // 0: off
  float top_p = 1, min_p = 0, typical_p = 1;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int penalty_window = 64;                                   // tokens back; 0: none; -1: all
  std::vector<std::pair<std::int32_t, float>> logit_bias{};  // finite or -inf; several of one id add up
  int mirostat = 0;                                          // 0 or 2
  float mirostat_tau = 5, mirostat_eta = 0.1F;
  float dry_multiplier = 0, dry_base = 1.75F;
  int dry_allowed_length = 2, dry_window = -1;            // window: tokens back; 0: DRY is off; -1: all
  std::vector<std::vector<std::int32_t>> dry_breakers{};  // token sequences that end a match
  std::uint64_t seed = 0;
};

// Names the option out of range; `vocab` bounds the ids.
Result<void> check(const SamplerOptions& options);
Result<void> check(const SamplerOptions& options, std::int64_t vocab);

class Sampler {
 public:
  // options must pass check(). Histories up to max_history tokens never make sample() allocate.
  Sampler(const SamplerOptions& options, std::int64_t vocab, std::int64_t max_history = 0);
  // history: prompt and completion so far, oldest first, all in the vocabulary.
  // NaN or +inf among the logits is `bad_input` (the weights are damaged, or the arithmetic overflowed); -inf is an
  // impossible token. Biases that leave no token possible are a usage error.
  Result<std::int32_t> sample(std::span<const float> logits, std::span<const std::int32_t> history);

 private:
  struct Candidate {
    float logit;
    std::int32_t id;
    double p;  // unnormalised within a filter
  };
  void apply_penalties(std::span<const std::int32_t> history);
  void apply_dry(std::span<const std::int32_t> history);
  void gather();
  double weigh_vocabulary(double temperature);
  template <class Enough>
  void take_best(const Enough& enough);
  void sort_found();
  void sort_first(std::size_t count);
  double weigh(std::size_t count, double temperature);
  void top_k();
  void typical();
  void top_p();
  void min_p();
  std::int32_t draw(double temperature);
  std::int32_t draw_from_vocabulary(double temperature);
  std::int32_t mirostat();
  std::uint64_t next();

  SamplerOptions options_;
  std::uint64_t state_[4];
  double mu_;
  std::vector<float> logits_;
  float best_ = 0;  // the highest of logits_
  // The tokens that are left: every one with a finite logit, in the order of ids, while whole_; else candidates_.
  bool whole_ = true;
  std::vector<Candidate> candidates_;
  std::size_t sorted_ = 0;        // so many candidates at the front are the best ones, in order
  std::vector<double> p_;         // of the whole vocabulary, unnormalised
  std::vector<double> p_before_;  // the sum of p_ before each block
  std::vector<std::int32_t> found_;
  std::vector<std::pair<std::uint32_t, std::int32_t>> keys_, keys_after_;  // for sort_found()
  std::vector<std::int32_t> count_;                                        // by token; zero between calls
  std::vector<std::int32_t> repeat_;
};

}  // namespace knapsack
