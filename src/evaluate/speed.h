// How fast a model reads and writes tokens, and which kernels the time goes to. Runs the programs that a session runs,
// on token ids of no meaning. Not for what the machine could do at most: device/peaks.h, which the caller sets beside.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bundle/bundle.h"
#include "kernels/kernel.h"
#include "program/kv_cache.h"

namespace knapsack {

// prefill: each of `prompts` tokens at the end of what the KV cache holds, a depth, and the logits of the last.
// decode: each of `gens` steps of one token for each of `batch` sequences, each sequence holding a depth at the start;
// the likeliest next token is chosen in each step and goes into the next.
struct SpeedOptions {
  std::vector<std::int64_t> prompts{512};  // 0: no prefill
  std::vector<std::int64_t> gens{128};     // 0: no decode
  std::vector<std::int64_t> depths{0};
  std::vector<int> threads{1};
  int repeats = 5;
  std::int64_t batch = 1;  // the bundle's programs must be able to select as many rows
  DType kv = DType::F16;
  bool exact = false;  // float products (SessionOptions::exact)
  std::optional<Isa> isa{};
  std::function<void(double done)> progress{};  // 0 to 1
  [[nodiscard]] bool reads() const;             // any prefill at all
  [[nodiscard]] bool writes() const;            // any decode at all
  [[nodiscard]] std::int64_t ctx() const;       // what all of it needs
};

// The ops of one kind, in one measured pass.
struct KernelTime {
  std::string name;      // "linear Q4_0", "attention", "sampling", "rest"
  double share = 0;      // of the pass's time
  double ms = 0;         // of the whole pass
  double bytes = 0;      // they had to touch (program/profile.h), a second
  double products = 0;   // operations of products, a second
  int bits = 0;          // integer products: of the weights; 0: float products, or none
  bool weights = false;  // reads matrices or KV rows, which come from memory; else activations, which a cache holds
};

struct Speed {
  bool prefill = true;
  std::int64_t prompt = 0, gen = 0, depth = 0;
  int threads = 1;
  std::vector<double> tokens_per_s{};  // a sample each repeat; of all sequences together
  std::vector<KernelTime> kernels{};   // longest first; of one more pass, which is no sample
};

// Repeats are the outer loop, so that all cases meet the same neighbours. A run stopped is Code::interrupted; a KV
// cache that does not fit is out_of_resource and says what to reduce.
Result<std::vector<Speed>> measure_speed(const Bundle& bundle, const SpeedOptions& options,
                                         const std::stop_token& stop = {});

// The KV cache that measuring takes, none of it touched: an error here is one that measure_speed() would give later.
Result<KvCache> speed_cache(const Bundle& bundle, const SpeedOptions& options);

double median(std::vector<double> values);  // of at least one

}  // namespace knapsack
