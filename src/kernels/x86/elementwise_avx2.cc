// add, scale and gated_act. gelu with erf stays with the scalar function: no architecture here gates with it.
#include "kernels/ref/ref.h"
#include "kernels/x86/kernels_avx2.h"
#include "kernels/x86/math_avx2.h"

namespace knapsack::avx2 {
namespace {

constexpr std::int64_t piece = 4096;  // elements worth a thread

// out = f(a, b) for eight elements at a time; b may be a.
template <class F>
KNAP_INLINE void map(const float* a, const float* b, float* out, std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, f(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i)));
  if (i == count) return;
  const __m256i mask = first_lanes(count - i);
  _mm256_maskstore_ps(out + i, mask, f(_mm256_maskload_ps(a + i, mask), _mm256_maskload_ps(b + i, mask)));
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
    map(a + at, b + at, y + at, count, [](__m256 u, __m256 v) { return _mm256_add_ps(u, v); });
  });
}

void scale(const OpCall& call) {
  const float* x = call.in[0].f32();
  float* y = call.out[0].f32();
  const __m256 factor = _mm256_set1_ps(call.attrs->f(Attr::scale));
  for_pieces(call, [&](std::int64_t at, std::int64_t count) {
    map(x + at, x + at, y + at, count, [&](__m256 u, __m256) { return _mm256_mul_ps(u, factor); });
  });
}

void gate(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count) {
  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256 minus = _mm256_set1_ps(-0.0F);
  if (act == 0) {
    map(gate, up, out, count, [&](__m256 x, __m256 u) {
      return _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(one, exp8(_mm256_xor_ps(x, minus)))), u);
    });
  } else if (act == 2) {
    // x/2 * (1 + tanh(z)) is x / (1 + e^(-2z)).
    const __m256 inner = _mm256_set1_ps(-2 * 0.7978845608F);  // sqrt(2/pi)
    const __m256 cubic = _mm256_set1_ps(-2 * 0.7978845608F * 0.044715F);
    map(gate, up, out, count, [&](__m256 x, __m256 u) {
      const __m256 z = _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_mul_ps(x, x), cubic, inner));
      return _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(one, exp8(z))), u);
    });
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

}  // namespace knapsack::avx2
