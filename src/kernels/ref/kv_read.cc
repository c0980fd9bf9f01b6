#include "kernels/ref/kv_element.h"
#include "kernels/ref/ref.h"

namespace knapsack::ref {

void kv_read(const OpCall& call) {
  const StateView& state = *call.in[0].state;
  const std::int64_t heads = call.out[0].dims[1];
  const bool transposed = call.attrs->i(Attr::transposed) != 0;
  const std::int64_t ctx = call.out[0].dims[transposed ? 3 : 2];
  const std::int64_t cols = call.out[0].dims[transposed ? 2 : 3];
  const std::int64_t slot = call.rows->slots[0];
  if (transposed) {
    for_rows(call, heads * cols, [&](std::int64_t index, int) {
      float* out = call.out[0].f32() + index * ctx;
      for (std::int64_t p = 0; p < ctx; ++p) out[p] = kv_element(state, slot, p, index);
    });
    return;
  }
  for_rows(call, heads * ctx, [&](std::int64_t index, int) {
    float* out = call.out[0].f32() + index * cols;
    for (std::int64_t i = 0; i < cols; ++i) out[i] = kv_element(state, slot, index % ctx, index / ctx * cols + i);
  });
}

}  // namespace knapsack::ref
