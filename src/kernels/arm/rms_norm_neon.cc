// rms_norm: squares are summed in double, as in the reference.
#include <algorithm>
#include <cmath>

#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/neon.h"

namespace knapsack::neon {
namespace {

KNAP_INLINE float64x2_t add_squares(float64x2_t sum, float32x2_t x) {
  const float64x2_t wide = vcvt_f64_f32(x);
  return vfmaq_f64(sum, wide, wide);
}

double squares(const float* x, std::int64_t count) {
  float64x2_t a = vdupq_n_f64(0);
  float64x2_t b = vdupq_n_f64(0);
  float64x2_t c = vdupq_n_f64(0);
  float64x2_t d = vdupq_n_f64(0);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const F8 v = load8(x + i);
    a = add_squares(a, vget_low_f32(v.low));
    b = add_squares(b, vget_high_f32(v.low));
    c = add_squares(c, vget_low_f32(v.high));
    d = add_squares(d, vget_high_f32(v.high));
  }
  double sum = vaddvq_f64(vaddq_f64(vaddq_f64(a, c), vaddq_f64(b, d)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace

void rms_norm(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  const std::int64_t width = call.attrs->i(Attr::width, cols);
  const float eps = call.attrs->f(Attr::eps);
  const float offset = call.attrs->f(Attr::offset);
  const float* w = call.in.size() > 1 ? call.in[1].weight->f32() : nullptr;
  const std::int64_t groups = call.in[0].rows * (cols / width);
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / width);
  call.pool->parallel_for(groups, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t group = begin; group < end; ++group) {
      const float* x = call.in[0].f32() + group * width;
      float* y = call.out[0].f32() + group * width;
      const float mean = static_cast<float>(squares(x, width) / static_cast<double>(width));
      const float inverse = 1.0F / std::sqrt(mean + eps);
      const F8 factor = all8(inverse);
      const F8 moved = all8(offset);
      std::int64_t i = 0;
      for (; i + 8 <= width; i += 8) {
        F8 v = load8(x + i) * factor;
        if (w != nullptr) v = v * (load8(w + i) + moved);
        store8(y + i, v);
      }
      for (; i < width; ++i) y[i] = x[i] * inverse * (w != nullptr ? w[i] + offset : 1.0F);
    }
  });
}

}  // namespace knapsack::neon
