#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace knapsack::ref {

float activate(std::int64_t act, float x) {
  constexpr auto inv_sqrt2 = static_cast<float>(std::numbers::sqrt2 / 2);
  constexpr auto sqrt_2_over_pi = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  switch (act) {
    case 0:
      return x / (1.0F + std::exp(-x));
    case 1:
      return 0.5F * x * (1.0F + std::erf(x * inv_sqrt2));
    case 2:
      return 0.5F * x * (1.0F + std::tanh(sqrt_2_over_pi * (x + 0.044715F * x * x * x)));
    default:
      CHECK(act >= 0 && act <= 2);
      return 0;
  }
}

void gated_act(const OpCall& call) {
  const std::int64_t act = call.attrs->i(Attr::act);
  const float* gate = call.in[0].f32();
  const float* up = call.in[1].f32();
  float* y = call.out[0].f32();
  for_elements(call, call.out[0].rows * call.out[0].cols,
               [&](std::int64_t i) { y[i] = activate(act, gate[i]) * up[i]; });
}

}  // namespace knapsack::ref
