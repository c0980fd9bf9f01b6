// vector_loops.h's V for AVX-512.
#pragma once

#include "device/x86/vector_loops.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): each file compiles it for its own instruction set

struct Wide512 {
  using Ints = __m512i;
  using Floats = __m512;
  static Floats floats(float v) { return _mm512_set1_ps(v); }
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Ints lanes(int v) { return _mm512_set1_epi32(v); }
  static Ints pairs(Ints w, Ints x) { return _mm512_maddubs_epi16(w, x); }
  static Ints add_pairs(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
  static Ints widen(Ints a, Ints ones) { return _mm512_madd_epi16(a, ones); }
  static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
};

}  // namespace
}  // namespace knapsack
