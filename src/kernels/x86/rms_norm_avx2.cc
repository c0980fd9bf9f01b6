// rms_norm: squares are summed in double, as in the reference.
#include <algorithm>
#include <cmath>

#include "kernels/x86/avx2.h"
#include "kernels/x86/kernels_avx2.h"

namespace knapsack::avx2 {
namespace {

KNAP_INLINE __m256d add_squares(__m256d sum, __m128 x) {
  const __m256d wide = _mm256_cvtps_pd(x);
  return _mm256_fmadd_pd(wide, wide, sum);
}

double squares(const float* x, std::int64_t count) {
  __m256d a = _mm256_setzero_pd();
  __m256d b = _mm256_setzero_pd();
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    a = add_squares(a, _mm_loadu_ps(x + i));
    b = add_squares(b, _mm_loadu_ps(x + i + 4));
  }
  alignas(32) double lane[4];
  _mm256_store_pd(lane, _mm256_add_pd(a, b));
  double sum = (lane[0] + lane[2]) + (lane[1] + lane[3]);
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
      const __m256 factor = _mm256_set1_ps(inverse);
      const __m256 moved = _mm256_set1_ps(offset);
      std::int64_t i = 0;
      for (; i + 8 <= width; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
        if (w != nullptr) v = _mm256_mul_ps(v, _mm256_add_ps(_mm256_loadu_ps(w + i), moved));
        _mm256_storeu_ps(y + i, v);
      }
      for (; i < width; ++i) y[i] = x[i] * inverse * (w != nullptr ? w[i] + offset : 1.0F);
    }
  });
}

}  // namespace knapsack::avx2
