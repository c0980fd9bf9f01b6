#include "kernels/ref/kv_element.h"
#include "kernels/ref/ref.h"

namespace knapsack::ref {

void kv_read(const OpCall& call) {
  const StateView& state = *call.in[0].state;
  const std::int64_t heads = call.out[0].dims[1];
  const std::int64_t ctx = call.out[0].dims[2];
  const std::int64_t cols = call.out[0].dims[3];
  const std::int64_t slot = call.rows->slots[0];
  for_rows(call, heads * ctx, [&](std::int64_t index, int) {
    float* out = call.out[0].f32() + index * cols;
    for (std::int64_t i = 0; i < cols; ++i) out[i] = kv_element(state, slot, index % ctx, index / ctx * cols + i);
  });
}

}  // namespace knapsack::ref
