#include <algorithm>

#include "kernels/ref/ref.h"

namespace knapsack::ref {

void rope_cached(const OpCall& call) {
  const std::int64_t heads = call.attrs->i(Attr::heads);
  const std::int64_t stride = call.attrs->i(Attr::stride);
  const std::int64_t begin = call.attrs->i(Attr::begin);
  const std::int64_t half = call.attrs->i(Attr::rotary) / 2;
  const bool interleaved = call.attrs->i(Attr::interleaved) != 0;
  const std::int64_t cols = heads * stride;
  for_rows(call, call.in[0].rows, [&](std::int64_t row, int) {
    const float* x = call.in[0].f32() + row * cols;
    float* y = call.out[0].f32() + row * cols;
    std::copy_n(x, cols, y);
    const std::int64_t position = call.rows->positions[static_cast<std::size_t>(row)];
    const float* cos = call.in[1].weight->f32() + position * half;
    const float* sin = call.in[2].weight->f32() + position * half;
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t first = begin + (interleaved ? 2 * i : i);
      const std::int64_t second = interleaved ? first + 1 : first + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float a = x[h * stride + first];
        const float b = x[h * stride + second];
        y[h * stride + first] = a * cos[i] - b * sin[i];
        y[h * stride + second] = b * cos[i] + a * sin[i];
      }
    }
  });
}

}  // namespace knapsack::ref
