#include "kernels/ref/ref.h"
#include "tensor/half.h"

namespace knapsack::ref {

void gather_cols(const OpCall& call) {
  const std::int64_t from = call.in[0].cols;
  const std::int64_t cols = call.out[0].cols;
  const std::byte* index = call.in[1].weight->slab(0);
  for_rows(call, call.in[0].rows, [&](std::int64_t row, int) {
    const float* x = call.in[0].f32() + row * from;
    float* y = call.out[0].f32() + row * cols;
    for (std::int64_t j = 0; j < cols; ++j) y[j] = x[load_unaligned<std::int32_t>(index + j * 4)];
  });
}

}  // namespace knapsack::ref
