// add, scale and gated_act. gelu with erf stays with the scalar function: no architecture here gates with it.
#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/math_neon.h"
#include "kernels/ref/ref.h"

namespace knapsack::neon {
namespace {

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

}  // namespace

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

}  // namespace knapsack::neon
