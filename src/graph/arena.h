// Where each activation of a program lies in the arena: a packing of intervals (steps it lives) by size.
// Not for weights or states: those have memory of their own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace knapsack {

struct Buffer {
  std::size_t bytes = 0;
  int first = 0;  // number of the op that makes it
  int last = 0;   // number of the last op that reads it (>= first)
};

struct ArenaPlan {
  std::vector<std::size_t> offsets{};  // by buffer, 64-byte aligned
  std::size_t bytes = 0;
  std::size_t lower_bound = 0;  // the most bytes alive at one op: no plan is smaller
};

// Greedy by size, best fit: the largest buffer first, each into the smallest gap that lives at the same time.
// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.)
ArenaPlan plan_arena(std::span<const Buffer> buffers);

}  // namespace knapsack
