// rope: sine and cosine of eight frequencies at a time, then all heads with them.
#include <algorithm>
#include <array>

#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/math_neon.h"

namespace knapsack::neon {
namespace {

struct Rotation {
  std::int64_t heads, stride, begin, half;
  bool interleaved;
  float scale;
};

struct Turned {
  F8 first, second;
};
KNAP_INLINE Turned turn(F8 a, F8 b, F8 c, F8 s) { return {a * c - b * s, b * c + a * s}; }

// Eight pairs that start at x + i of each head; c and s: [8].
void rotate_eight(const Rotation& r, const float* x, float* y, std::int64_t i, F8 c, F8 s) {
  for (std::int64_t h = 0; h < r.heads; ++h) {
    const std::int64_t at = h * r.stride + r.begin;
    if (!r.interleaved) {
      const Turned turned = turn(load8(x + at + i), load8(x + at + r.half + i), c, s);
      store8(y + at + i, turned.first);
      store8(y + at + r.half + i, turned.second);
      continue;
    }
    const float* from = x + at + 2 * i;
    float* to = y + at + 2 * i;
    const float32x4x2_t low = vld2q_f32(from);  // firsts and seconds apart
    const float32x4x2_t high = vld2q_f32(from + 8);
    const Turned turned = turn({low.val[0], high.val[0]}, {low.val[1], high.val[1]}, c, s);
    vst2q_f32(to, {{turned.first.low, turned.second.low}});
    vst2q_f32(to + 8, {{turned.first.high, turned.second.high}});
  }
}

void rotate_few(const Rotation& r, const float* x, float* y, std::int64_t i, std::int64_t count, const float* c,
                const float* s) {
  for (std::int64_t h = 0; h < r.heads; ++h)
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t first = h * r.stride + r.begin + (r.interleaved ? 2 * (i + k) : i + k);
      const std::int64_t second = r.interleaved ? first + 1 : first + r.half;
      const float a = x[first];
      const float b = x[second];
      y[first] = a * c[k] - b * s[k];
      y[second] = b * c[k] + a * s[k];
    }
}

}  // namespace

void rope(const OpCall& call) {
  const Rotation r{.heads = call.attrs->i(Attr::heads),
                   .stride = call.attrs->i(Attr::stride),
                   .begin = call.attrs->i(Attr::begin),
                   .half = call.attrs->i(Attr::rotary) / 2,
                   .interleaved = call.attrs->i(Attr::interleaved) != 0,
                   .scale = call.attrs->f(Attr::scale, 1)};
  const float* inv_freq = call.in[1].weight->f32();
  const std::int64_t cols = r.heads * r.stride;
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / cols);
  call.pool->parallel_for(call.in[0].rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* x = call.in[0].f32() + row * cols;
      float* y = call.out[0].f32() + row * cols;
      if (2 * r.half < r.stride) std::copy_n(x, cols, y);
      const F8 position = all8(static_cast<float>(call.rows->positions[static_cast<std::size_t>(row)]));
      const F8 factor = all8(r.scale);
      for (std::int64_t i = 0; i < r.half; i += 8) {
        const std::int64_t count = std::min<std::int64_t>(8, r.half - i);
        const F8 freq = count == 8 ? load8(inv_freq + i) : load_first(inv_freq + i, count);
        F8 s;
        F8 c;
        sin_cos8(position * freq, s, c);
        s = s * factor;
        c = c * factor;
        if (count == 8) {
          rotate_eight(r, x, y, i, c, s);
          continue;
        }
        std::array<float, 8> cosine{};
        std::array<float, 8> sine{};
        store8(cosine.data(), c);
        store8(sine.data(), s);
        rotate_few(r, x, y, i, count, cosine.data(), sine.data());
      }
    }
  });
}

}  // namespace knapsack::neon
