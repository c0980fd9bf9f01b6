// The options that `run` and `chat` share: how long, from which context, how to pick tokens, when to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/arguments.h"
#include "runtime/session.h"

namespace knapsack {

class GenerationFlags {
 public:
  void describe(Arguments& arguments);

  [[nodiscard]] std::int64_t ctx() const { return ctx_.value_or(0); }
  // How the session is to be made, `draft` opened where it is asked for.
  [[nodiscard]] SessionOptions session(std::shared_ptr<const Bundle> draft) const;
  [[nodiscard]] const std::optional<std::string>& draft() const { return draft_; }

  // What needs no model: before the model is opened, so that a bad value costs nothing.
  Result<void> check_alone() const;
  // With no option that picks tokens: greedy, unless `by_default` (a checkpoint's own wishes) asks for sampling.
  // Without --seed a sampled text gets a random seed. tokenizer: may be null; only DRY's breakers need it.
  Result<GenerateOptions> resolve(const GenerationDefaults* by_default, const Tokenizer* tokenizer) const;
  // Options that were given and change nothing, because of what resolve() made of the others: a warning each.
  void warn_of_idle(const SamplerOptions& sampler) const;
  // For --json: how the session computes.
  void describe_session(json::object& object) const;

 private:
  [[nodiscard]] bool asks_for_sampling() const;

  std::optional<std::int64_t> max_tokens_, ctx_;
  std::string kv_ = "f16";
  std::string speculate_ = "lookup";
  std::optional<std::string> draft_;
  std::optional<std::int64_t> guesses_;
  std::optional<std::int64_t> seed_;
  bool greedy_ = false;
  std::optional<float> temperature_, top_p_, min_p_, typical_;
  std::optional<int> top_k_;
  std::optional<float> repeat_penalty_;
  float presence_penalty_ = 0, frequency_penalty_ = 0;
  int penalty_window_ = 64;
  std::vector<std::string> logit_bias_;
  int mirostat_ = 0;
  float mirostat_tau_ = 5, mirostat_eta_ = 0.1F;
  float dry_multiplier_ = 0, dry_base_ = 1.75F;
  int dry_allowed_length_ = 2, dry_window_ = -1;
  std::vector<std::string> dry_breakers_;
  std::vector<std::string> stop_;
  int logprobs_ = 0;
  bool ignore_eos_ = false, exact_ = false;
};

}  // namespace knapsack
