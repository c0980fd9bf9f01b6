// From logits to the next token. Deterministic: the same logits, options and history give the same token on every
// machine and thread count (its own random generator; nothing from <random>'s unspecified distributions).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack {

struct SamplerOptions {
  float temperature = 0;  // 0: greedy
  int top_k = 0;          // 0: off
  float top_p = 1, min_p = 0, typical_p = 1;
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int penalty_window = 64;  // tokens back; -1: all
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  int mirostat = 0;  // 0 or 2
  float mirostat_tau = 5, mirostat_eta = 0.1F;
  float dry_multiplier = 0, dry_base = 1.75F;
  int dry_allowed_length = 2, dry_window = -1;
  std::vector<std::vector<std::int32_t>> dry_breakers;  // token sequences that end a match
  std::uint64_t seed = 0;
};

Result<void> check(const SamplerOptions& options);  // names the option out of range

class Sampler {
 public:
  Sampler(const SamplerOptions& options, std::int64_t vocab);
  // history: prompt and completion so far, oldest first. Ties go to the lowest id.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);

 private:
  SamplerOptions options_;
  std::uint64_t state_[2];
  float mu_;
  std::vector<float> work_;
  std::vector<std::pair<float, std::int32_t>> candidates_;
};

}  // namespace knapsack
