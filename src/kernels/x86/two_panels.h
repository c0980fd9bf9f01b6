// Two panels of packed.h in one vector of AVX-512 (F, BW, DQ, VL). Included by the packed_avx512*.cc files only.
#pragma once

#include "kernels/x86/packed_dot.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

// OnePanel's interface (packed_dot.h) for two panels, which lie `next` bytes apart.
struct TwoPanels {
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int panels = 2;
  static KNAP_INLINE Ints load(const std::byte* p, std::int64_t next) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load_32_bytes(p)), load_32_bytes(p + next), 1);
  }
  static KNAP_INLINE Floats load_factors(const std::byte* p, std::int64_t next) {
    return _mm512_cvtph_ps(
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_16_bytes(p)), load_16_bytes(p + next), 1));
  }
  static KNAP_INLINE Ints bytes(char v) { return _mm512_set1_epi8(v); }
  static KNAP_INLINE Ints lanes(std::int32_t v) { return _mm512_set1_epi32(v); }
  static KNAP_INLINE Ints zeros() { return _mm512_setzero_si512(); }
  static KNAP_INLINE Ints both(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  static KNAP_INLINE Ints either(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  static KNAP_INLINE Ints flip(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  template <int by>
  static KNAP_INLINE Ints right(Ints a) {
    if constexpr (by >= 0) {
      return _mm512_srli_epi16(a, by);
    } else {
      return _mm512_slli_epi16(a, -by);
    }
  }
  static KNAP_INLINE Ints magnitude(Ints a) { return _mm512_abs_epi8(a); }
  // Where `of` is 0 the sign does not matter: what it is multiplied with is 0.
  static KNAP_INLINE Ints with_sign(Ints a, Ints of) {
    return _mm512_mask_sub_epi8(a, _mm512_movepi8_mask(of), _mm512_setzero_si512(), a);
  }
  static KNAP_INLINE Ints pairs(Ints codes, Ints q) { return _mm512_maddubs_epi16(codes, q); }
  static KNAP_INLINE Ints add_pairs(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
  static KNAP_INLINE Ints widen(Ints pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }
  static KNAP_INLINE Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static KNAP_INLINE Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  static KNAP_INLINE Floats all(const float* v) { return _mm512_set1_ps(*v); }
  static KNAP_INLINE Floats none() { return _mm512_setzero_ps(); }
  static KNAP_INLINE Floats load_rows(const float* p) { return _mm512_loadu_ps(p); }
  static KNAP_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static KNAP_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static KNAP_INLINE void store(float* out, const float* bias, const float* residual, std::int64_t count, Floats y) {
    const auto mask = static_cast<__mmask16>(0xffffU >> (16 - count));  // 9 rows at least, 16 at most
    if (bias != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, bias));
    if (residual != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, residual));
    _mm512_mask_storeu_ps(out, mask, y);
  }
};

}  // namespace
}  // namespace knapsack
