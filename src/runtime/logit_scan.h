// The sampler's passes over a whole vocabulary, written so that the compiler makes vectors of them: built for AVX2,
// too, and picked where the CPU has it. Same bits on every machine. Not for what a pass is for: sampler.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace knapsack {

// Some logit is NaN or +inf.
bool any_broken(std::span<const float> logits);
// The highest one; -inf when there is none.
float highest(std::span<const float> logits);
// p[i] = exact_exp((logits[i] - best) / temperature), in double; 0 for -inf. best is no less than any of them.
void weigh_all(std::span<const float> logits, float best, double temperature, std::span<double> p);
// Appends the indices of those in [low, below), ascending. out has room for all of them.
void find_between(std::span<const float> logits, float low, float below, std::vector<std::int32_t>& out);

}  // namespace knapsack
