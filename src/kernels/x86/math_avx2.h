// exp and sine/cosine of eight floats, within 1.5 ulp of their true values (of 1 for sine and cosine). An element's
// result does not depend on its lane. Included by *_avx2.cc files only.
#pragma once

#include "kernels/x86/avx2.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

// e^x = 2^n * e^r with |r| <= ln(2)/2; the Taylor series to r^7 leaves an error below 6e-9. 2^n is applied in two
// halves, so that results reach down to subnormals and up to infinity. NaN stays NaN.
KNAP_INLINE __m256 exp8(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(-104.0F), x);  // max and min return x when it is NaN
  x = _mm256_min_ps(_mm256_set1_ps(89.0F), x);
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1F), x);  // ln 2 in two parts; the first has 15 bits
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20F), r);
  __m256 p = _mm256_set1_ps(1.0F / 5040);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 720));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 120));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 24));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 6));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const auto power = [](__m256i k) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(_mm256_sub_epi32(whole, half)));
}

// x minus the nearest multiple of pi/2 (three parts, exact enough up to 2^20), then a series for sine and cosine in
// [-pi/4, pi/4]; the multiple's last two bits say which is which and what its sign is.
KNAP_INLINE void sin_cos8(__m256 x, __m256& sine, __m256& cosine) {
  const __m256 n =
      _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.45f306p-1F)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.921fb6p+0F), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.777a5cp-25F), r);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.ee59dap-50F), r);
  const __m256 r2 = _mm256_mul_ps(r, r);
  __m256 s = _mm256_set1_ps(0x1.71de3ap-19F);                    // 1/9!
  s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(-0x1.a01a02p-13F));  // -1/7!
  s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(0x1.111112p-7F));    // 1/5!
  s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(-0x1.555556p-3F));   // -1/3!
  s = _mm256_fmadd_ps(_mm256_mul_ps(s, r2), r, r);
  __m256 c = _mm256_set1_ps(-0x1.27e4fcp-22F);                   // -1/10!
  c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(0x1.a01a02p-16F));   // 1/8!
  c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(-0x1.6c16c2p-10F));  // -1/6!
  c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(0x1.555556p-5F));    // 1/4!
  c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(-0.5F));
  c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(1.0F));
  const __m256i quadrant = _mm256_cvtps_epi32(n);
  const __m256 swap = _mm256_castsi256_ps(_mm256_slli_epi32(quadrant, 31));  // odd: blendv looks at the top bit
  const __m256i two = _mm256_set1_epi32(2);
  const auto sign = [&](__m256i q) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(q, two), 30)); };
  sine = _mm256_xor_ps(_mm256_blendv_ps(s, c, swap), sign(quadrant));
  cosine = _mm256_xor_ps(_mm256_blendv_ps(c, s, swap), sign(_mm256_add_epi32(quadrant, _mm256_set1_epi32(1))));
}

}  // namespace
}  // namespace knapsack
