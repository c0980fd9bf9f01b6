// What rope and rope_cached share: how pairs of columns are rotated. They differ in where cosines and sines come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/ref/ref.h"

namespace knapsack::ref {

// angle(position, i) -> {cos, sin} of pair i.
template <class Angle>
void rotate_heads(const OpCall& call, Angle&& angle) {
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
    for (std::int64_t i = 0; i < half; ++i) {
      const auto [c, s] = angle(position, i);
      const std::int64_t first = begin + (interleaved ? 2 * i : i);
      const std::int64_t second = interleaved ? first + 1 : first + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float a = x[h * stride + first];
        const float b = x[h * stride + second];
        y[h * stride + first] = a * c - b * s;
        y[h * stride + second] = b * c + a * s;
      }
    }
  });
}

}  // namespace knapsack::ref
