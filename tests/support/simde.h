// AVX-512 and VNNI for a CPU without them, in AVX2's instructions through SIMDe. Included by the compiler before all
// else (-include) of the kernels' own sources that are compiled for test_kernels a second time; see
// tests/CMakeLists.txt.
#pragma once

#include <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#define KNAP_EMULATED_VECTORS          // no vector is a register
#include <simde/x86/avx512/setzero.h>  // first: others use it and do not include it

#include <simde/x86/avx512/abs.h>
#include <simde/x86/avx512/add.h>
#include <simde/x86/avx512/and.h>
#include <simde/x86/avx512/blend.h>
#include <simde/x86/avx512/broadcast.h>
#include <simde/x86/avx512/cast.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/avx512/extract.h>
#include <simde/x86/avx512/fmadd.h>
#include <simde/x86/avx512/insert.h>
#include <simde/x86/avx512/loadu.h>
#include <simde/x86/avx512/madd.h>
#include <simde/x86/avx512/maddubs.h>
#include <simde/x86/avx512/mov_mask.h>
#include <simde/x86/avx512/mul.h>
#include <simde/x86/avx512/or.h>
#include <simde/x86/avx512/permutex2var.h>
#include <simde/x86/avx512/permutexvar.h>
#include <simde/x86/avx512/set1.h>
#include <simde/x86/avx512/shuffle.h>
#include <simde/x86/avx512/slli.h>
#include <simde/x86/avx512/srli.h>
#include <simde/x86/avx512/storeu.h>
#include <simde/x86/avx512/sub.h>
#include <simde/x86/avx512/xor.h>

// What SIMDe 0.7.4 lacks, and one alias that has the wrong parameters there.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16
inline __m256 simde_extractf32x8_ps(__m512 v, int which) {
  return which == 0 ? _mm512_castps512_ps256(v)
                    : _mm256_castpd_ps(simde_mm512_extractf64x4_pd(simde_mm512_castps_pd(v), 1));
}
inline __m512 simde_join(__m256 low, __m256 high) {
  return simde_mm512_insertf32x8(simde_mm512_castps256_ps512(low), high, 1);
}
inline __m512 simde_cvtph_ps(__m256i v) {
  return simde_join(_mm256_cvtph_ps(_mm256_castsi256_si128(v)), _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
}
inline __m512 simde_cvtepi32_ps(__m512i v) {
  const __m512 bits = simde_mm512_castsi512_ps(v);
  return simde_join(_mm256_cvtepi32_ps(_mm256_castps_si256(simde_extractf32x8_ps(bits, 0))),
                    _mm256_cvtepi32_ps(_mm256_castps_si256(simde_extractf32x8_ps(bits, 1))));
}
// One lane at a time: what the mask leaves out is not touched.
inline __m512 simde_maskz_loadu_ps(simde__mmask16 mask, const float* p) {
  alignas(64) float all[16] = {};
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) all[i] = p[i];
  return simde_mm512_loadu_ps(all);
}
inline void simde_mask_storeu_ps(float* p, simde__mmask16 mask, __m512 v) {
  alignas(64) float all[16];
  simde_mm512_storeu_ps(all, v);
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1) != 0) p[i] = all[i];
}
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps simde_extractf32x8_ps
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps simde_cvtph_ps
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps simde_cvtepi32_ps
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps simde_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps simde_mask_storeu_ps

// As functions: inlined a thousand times their forty instructions each take the compiler minutes.
[[gnu::noinline]] inline __m512i simde_dpbusd_512(__m512i sum, __m512i codes, __m512i q) {
  return simde_mm512_dpbusd_epi32(sum, codes, q);
}
[[gnu::noinline]] inline __m256i simde_dpbusd_256(__m256i sum, __m256i codes, __m256i q) {
  return simde_mm256_dpbusd_epi32(sum, codes, q);
}
#undef _mm512_dpbusd_epi32
#undef _mm256_dpbusd_epi32
#define _mm512_dpbusd_epi32 simde_dpbusd_512
#define _mm256_dpbusd_epi32 simde_dpbusd_256
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32 simde_dpbusd_256
