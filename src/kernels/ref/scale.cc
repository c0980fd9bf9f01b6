#include "kernels/ref/ref.h"

namespace knapsack::ref {

void scale(const OpCall& call) {
  const float factor = call.attrs->f(Attr::scale);
  const float* x = call.in[0].f32();
  float* y = call.out[0].f32();
  for_elements(call, call.out[0].rows * call.out[0].cols, [&](std::int64_t i) { y[i] = x[i] * factor; });
}

}  // namespace knapsack::ref
