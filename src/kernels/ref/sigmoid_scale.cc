#include <cmath>

#include "kernels/ref/ref.h"

namespace knapsack::ref {

void sigmoid_scale(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  for_rows(call, call.in[0].rows, [&](std::int64_t row, int) {
    const float* x = call.in[0].f32() + row * cols;
    float* y = call.out[0].f32() + row * cols;
    const float factor = 1.0F / (1.0F + std::exp(-call.in[1].f32()[row]));
    for (std::int64_t i = 0; i < cols; ++i) y[i] = x[i] * factor;
  });
}

}  // namespace knapsack::ref
