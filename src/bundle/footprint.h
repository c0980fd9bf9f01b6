// How much memory a program takes, known before any of it is asked for.
// Not for what else a process holds: the binary, the file's header, stacks. 32 MiB are enough for those.
#pragma once

#include <cstdint>

#include "bundle/bundle.h"

namespace knapsack {

// Bytes of KV cache for one token of context, over all states.
std::int64_t kv_bytes_per_token(const Program& program, DType kv);

struct Footprint {
  std::int64_t weights = 0;  // bytes of distinct constants, in the form that products read
  std::int64_t kv_per_token = 0;
  std::int64_t kv = 0;         // for the whole context
  std::int64_t arena = 0;      // activations of prefill and decode
  std::int64_t tokenizer = 0;  // while it is made, which is beside the weights; then about half of it
  [[nodiscard]] std::int64_t total() const { return weights + kv + arena + tokenizer; }
};
// exact: with the weights as they are stored (SessionOptions::exact), not repacked.
Footprint footprint(const Bundle& bundle, std::int64_t ctx, DType kv, bool exact = false);

}  // namespace knapsack
