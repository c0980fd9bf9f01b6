// add, scale, gated_act, rms_norm and rope for every fast instruction set, over F8, eight floats. The includer brings
// F8 with its functions: arithmetic, load8, store8, load_first, store_first, all8, fused, fused_minus, those that
// eight_math.h is made of (clamp8, nearest8, times_power, turn_quadrants), rotate_pairs, and Squares, which sums
// squares in double. Included by small_ops_*.cc only; everything is in an unnamed namespace, since each of these files
// is compiled for another set.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/ref/ref.h"

#include "kernels/eight_math.h"  // after what it is written over

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): said above
namespace small {

constexpr std::int64_t piece = 4096;  // elements worth a thread

// out = f(a, b) for eight elements at a time; b may be a.
template <class F>
KNAP_INLINE void map(const float* a, const float* b, float* out, std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) store8(out + i, f(load8(a + i), load8(b + i)));
  if (i == count) return;
  store_first(out + i, f(load_first(a + i, count - i), load_first(b + i, count - i)), count - i);
}

template <class F>
void for_pieces(const OpCall& call, F&& f) {
  call.pool->parallel_for(call.out[0].rows * call.out[0].cols, piece,
                          [&](std::int64_t begin, std::int64_t end, int) { f(begin, end - begin); });
}

void add(const OpCall& call) {
  const float* a = call.in[0].f32();
  const float* b = call.in[1].f32();
  float* y = call.out[0].f32();
  for_pieces(call, [&](std::int64_t at, std::int64_t count) {
    map(a + at, b + at, y + at, count, [](F8 u, F8 v) { return u + v; });
  });
}

void scale(const OpCall& call) {
  const float* x = call.in[0].f32();
  float* y = call.out[0].f32();
  const F8 factor = all8(call.attrs->f(Attr::scale));
  for_pieces(call, [&](std::int64_t at, std::int64_t count) {
    map(x + at, x + at, y + at, count, [&](F8 u, F8) { return u * factor; });
  });
}

// gelu with erf stays with the scalar function: no architecture here gates with it.
void gate(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count) {
  const F8 one = all8(1.0F);
  if (act == 0) {
    map(gate, up, out, count, [&](F8 x, F8 u) { return x / (one + exp8(-x)) * u; });
  } else if (act == 2) {
    // x/2 * (1 + tanh(z)) is x / (1 + e^(-2z)).
    const F8 inner = all8(-2 * 0.7978845608F);  // sqrt(2/pi)
    const F8 cubic = all8(-2 * 0.7978845608F * 0.044715F);
    map(gate, up, out, count, [&](F8 x, F8 u) { return x / (one + exp8(x * fused(x * x, cubic, inner))) * u; });
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = ref::activate(act, gate[i]) * up[i];
  }
}

void gated_act(const OpCall& call) {
  const std::int64_t act = call.attrs->i(Attr::act);
  const float* g = call.in[0].f32();
  const float* up = call.in[1].f32();
  float* y = call.out[0].f32();
  // An exponential costs some four plain elements.
  call.pool->parallel_for(
      call.out[0].rows * call.out[0].cols, piece / 4,
      [&](std::int64_t begin, std::int64_t end, int) { gate(act, g + begin, up + begin, y + begin, end - begin); });
}

// Of a row, in double, as in the reference.
double squares(const float* x, std::int64_t count) {
  Squares eights;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) eights.add(load8(x + i));
  double sum = eights.sum();
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void rms_norm(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  const std::int64_t width = call.attrs->i(Attr::width, cols);
  const float eps = call.attrs->f(Attr::eps);
  const float offset = call.attrs->f(Attr::offset);
  const float* w = call.in.size() > 1 ? call.in[1].weight->f32() : nullptr;
  const std::int64_t groups = call.in[0].rows * (cols / width);
  const std::int64_t grain = std::max<std::int64_t>(1, piece / width);
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

struct Rotation {
  std::int64_t heads, stride, begin, half;
  bool interleaved;
  float scale;
};

// Eight pairs that start at x + i of each head; c and s: [8].
void rotate_eight(const Rotation& r, const float* x, float* y, std::int64_t i, F8 c, F8 s) {
  for (std::int64_t h = 0; h < r.heads; ++h) {
    const std::int64_t at = h * r.stride + r.begin;
    if (r.interleaved) {
      rotate_pairs(x + at + 2 * i, y + at + 2 * i, c, s);
      continue;
    }
    const F8 a = load8(x + at + i);
    const F8 b = load8(x + at + r.half + i);
    store8(y + at + i, a * c - b * s);
    store8(y + at + r.half + i, b * c + a * s);
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

// Sine and cosine of eight frequencies at a time, then all heads with them.
void rope(const OpCall& call) {
  const Rotation r{.heads = call.attrs->i(Attr::heads),
                   .stride = call.attrs->i(Attr::stride),
                   .begin = call.attrs->i(Attr::begin),
                   .half = call.attrs->i(Attr::rotary) / 2,
                   .interleaved = call.attrs->i(Attr::interleaved) != 0,
                   .scale = call.attrs->f(Attr::scale, 1)};
  const float* inv_freq = call.in[1].weight->f32();
  const std::int64_t cols = r.heads * r.stride;
  const std::int64_t grain = std::max<std::int64_t>(1, piece / cols);
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

}  // namespace small
}  // namespace
}  // namespace knapsack
