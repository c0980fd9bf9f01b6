// Where a program's time goes: for each op the time it took, the bytes it had to touch and the operations it had to do.
// Filled by Executor::run while one is set; not for timing within a kernel, nor on which thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace knapsack {

// What one call of an op needs at least, wherever its operands lie. bytes: each weight in the form that is read (only
// the rows, heads or experts in use), each KV row once a sequence, each activation once. operations: multiplications
// and additions of products, two for each pair; 0 for ops that make none.
struct OpWork {
  double bytes = 0;
  double operations = 0;
};
// After the op has run: a router's choice decides which experts are read.
OpWork work_of(Op op, const OpCall& call);

struct Profile {
  struct Entry {
    std::int64_t calls = 0;
    double ms = 0;
    OpWork work{};
    bool packed = false;  // products of integers (kernels/packed.h)
  };
  std::vector<Entry> ops;  // as the program's; sized by the executor

  // What ran from op `index` on: one call, or several together, whose time is shared out by the bytes they touched.
  void add(std::size_t index, Op op, std::span<const OpCall> calls, double ms);
};

}  // namespace knapsack
