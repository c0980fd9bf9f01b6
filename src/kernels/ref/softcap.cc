#include <cmath>

#include "kernels/ref/ref.h"

namespace knapsack::ref {

void softcap(const OpCall& call) {
  const float cap = call.attrs->f(Attr::softcap);
  const float* x = call.in[0].f32();
  float* y = call.out[0].f32();
  for_elements(call, call.out[0].rows * call.out[0].cols, [&](std::int64_t i) { y[i] = cap * std::tanh(x[i] / cap); });
}

}  // namespace knapsack::ref
