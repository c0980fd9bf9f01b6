// Measures the choices of kernels/choices.h on this machine, each value beside what is built in, on products of made-up
// weights. A value is chosen only where it is faster by more than the measurement scatters. Not for what is the same
// for every value: speed.h.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/choices.h"

namespace knapsack {

struct TuneOptions {
  Isa isa = Isa::scalar;  // one that has integer products of its own
  int threads = 1;
  double seconds = 2;                            // for each choice
  std::int64_t bytes = std::int64_t{128} << 20;  // of weights that one token reads: more than the caches hold
  std::function<void(double done)> progress{};   // 0 to 1
};

struct Tried {
  std::int64_t value = 0;
  double ratio = 1;   // of the speed of what is built in: the median of the rounds
  double spread = 0;  // three quarters of the rounds are within this of it
};

struct Tuned {
  std::string codes;  // codes_name(), or "*"
  Choice choice{};
  std::int64_t before = 0;     // what is built in
  std::int64_t chosen = 0;     // `before`, unless another value is better by more than `noise`
  double noise = 0;            // what a value must be better by: the scatter of what is built in against itself
  std::vector<Tried> tried{};  // the other values
};

// What is faster for sure: the best of `tried`, if its lead is larger than its own spread, `noise` and a hundredth.
std::int64_t best_value(const Tuned& tuned);

// Stopped: an error of Code::interrupted.
Result<std::vector<Tuned>> tune(const TuneOptions& options, const std::stop_token& stop = {});

// The whole text of a file for KNAPSACK_CHOICES: `others`, lines of other instruction sets, and what was chosen for
// this one.
std::string choices_text(Isa isa, const std::vector<Tuned>& tuned, std::span<const ChoiceLine> others);

}  // namespace knapsack
