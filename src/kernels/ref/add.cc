#include "kernels/ref/ref.h"

namespace knapsack::ref {

void add(const OpCall& call) {
  const float* a = call.in[0].f32();
  const float* b = call.in[1].f32();
  float* y = call.out[0].f32();
  for_elements(call, call.out[0].rows * call.out[0].cols, [&](std::int64_t i) { y[i] = a[i] + b[i]; });
}

}  // namespace knapsack::ref
