// The bodies of loops.h over V, a vector of 256 or of 512 bits. Included by the mixes_*.cc files only. An empty asm
// that "changes" an operand keeps the compiler from making one product of many equal ones; it costs no instruction.
#pragma once

#include <immintrin.h>

#include "device/x86/loops.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): each file compiles it for its own instruction set

struct Wide256 {
  using Ints = __m256i;
  using Floats = __m256;
  static Floats floats(float v) { return _mm256_set1_ps(v); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Ints lanes(int v) { return _mm256_set1_epi32(v); }
  static Ints pairs(Ints w, Ints x) { return _mm256_maddubs_epi16(w, x); }
  static Ints add_pairs(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  static Ints widen(Ints a, Ints ones) { return _mm256_madd_epi16(a, ones); }
  static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
};

template <class V>
void fma_loop(std::int64_t steps) {
  typename V::Floats sums[fma_chains];
#pragma GCC unroll 12
  for (int i = 0; i < fma_chains; ++i) sums[i] = V::floats(0);
  typename V::Floats x = V::floats(0.5F);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < fma_chains; ++i) {
      asm volatile("" : "+v"(x), "+v"(sums[i]));
      sums[i] = V::fma(sums[i], x, x);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < fma_chains; ++i) asm volatile("" : : "v"(sums[i]));
}

// once(sum, w, x): the sum after one more.
template <class V, class Once>
void integer_loop(std::int64_t steps, const Once& once) {
  typename V::Ints sums[dot_chains];
#pragma GCC unroll 8
  for (int i = 0; i < dot_chains; ++i) sums[i] = V::lanes(0);
  typename V::Ints w = V::lanes(0x07070707);
  typename V::Ints x = V::lanes(0x03030303);
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 8
    for (int i = 0; i < dot_chains; ++i) {
      asm volatile("" : "+v"(w), "+v"(x), "+v"(sums[i]));
      sums[i] = once(sums[i], w, x);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < dot_chains; ++i) asm volatile("" : : "v"(sums[i]));
}

template <class V, int before>
void maddubs_loop(std::int64_t steps) {
  using Ints = typename V::Ints;
  const Ints ones = V::lanes(0x00010001);
  integer_loop<V>(steps, [&](Ints sum, Ints& w, Ints& x) {
    Ints narrow = V::pairs(w, x);
    for (int i = 1; i < before; ++i) {
      asm volatile("" : "+v"(w), "+v"(x));
      narrow = V::add_pairs(narrow, V::pairs(w, x));
    }
    return V::add(sum, V::widen(narrow, ones));
  });
}

template <class V>
constexpr VectorLoops vector_loops{
    .fma = fma_loop<V>, .maddubs = maddubs_loop<V, 1>, .two = maddubs_loop<V, 2>, .four = maddubs_loop<V, 4>};

}  // namespace
}  // namespace knapsack
