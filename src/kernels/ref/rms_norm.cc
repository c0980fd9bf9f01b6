#include <cmath>

#include "kernels/ref/ref.h"

namespace knapsack::ref {

void rms_norm(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  const std::int64_t width = call.attrs->i(Attr::width, cols);
  const float eps = call.attrs->f(Attr::eps);
  const float offset = call.attrs->f(Attr::offset);
  const float* w = call.in.size() > 1 ? call.in[1].weight->f32() : nullptr;
  for_rows(call, call.in[0].rows * (cols / width), [&](std::int64_t group, int) {
    const float* x = call.in[0].f32() + group * width;
    float* y = call.out[0].f32() + group * width;
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += static_cast<double>(x[i]) * x[i];
    const float mean = static_cast<float>(squares / static_cast<double>(width));
    const float inverse = 1.0F / std::sqrt(mean + eps);
    for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] * inverse * (w != nullptr ? w[i] + offset : 1.0F);
  });
}

}  // namespace knapsack::ref
