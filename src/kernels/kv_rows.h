// The frame of kv_write on every fast instruction set: which columns go where. What their bytes become is the set's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): each file compiles it for its own instruction set

// write(x, count, dtype, to) for every run of columns that lie side by side in the cache.
template <class Write>
void write_kv_rows(const OpCall& call, const Write& write) {
  const std::int64_t cols = call.in[0].cols;
  const std::int64_t col = call.attrs->i(Attr::col);
  const StateView& state = *call.in[1].state;
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / cols);
  call.pool->parallel_for(call.in[0].rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const float* x = call.in[0].f32() + row * cols;
      for (std::int64_t at = 0, some = 0; at < cols; at += some) {
        some = std::min(cols - at, state.head_cols - (col + at) % state.head_cols);
        write(x + at, some, state.dtype, state.at(call.rows->slots[r], call.rows->positions[r], col + at));
      }
    }
  });
}

}  // namespace
}  // namespace knapsack
