// Small AVX2 pieces shared by the kernels here. Included by *_avx2.cc files and those of wider sets only, which are
// compiled for AVX2, FMA and F16C; everything is in an unnamed namespace so that no other file's copy of a function is
// replaced by one of these.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "tensor/half.h"

#define KNAP_INLINE inline __attribute__((always_inline))

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)): the one order in which lanes are summed (matmul.h).
KNAP_INLINE float lane_sum(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The lane sums of four vectors, in the same order each.
KNAP_INLINE __m128 lane_sums(__m256 a, __m256 b, __m256 c, __m256 d) {
  const auto fold = [](__m256 v) { return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)); };
  __m128 f0 = fold(a);
  __m128 f1 = fold(b);
  __m128 f2 = fold(c);
  __m128 f3 = fold(d);
  _MM_TRANSPOSE4_PS(f0, f1, f2, f3);
  return _mm_add_ps(_mm_add_ps(f0, f2), _mm_add_ps(f1, f3));
}

// The same of two times four vectors: those of `a` in the lower half, those of `b` in the upper one.
KNAP_INLINE __m256 lane_sums(const __m256 (&a)[4], const __m256 (&b)[4]) {
  __m256 fold[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    fold[i] = _mm256_add_ps(_mm256_permute2f128_ps(a[i], b[i], 0x20), _mm256_permute2f128_ps(a[i], b[i], 0x31));
  const auto pairs = [](__m256 x, __m256 y) {  // (l0+l4)+(l2+l6), (l1+l5)+(l3+l7) of x, then of y
    const __m256d p = _mm256_castps_pd(x);
    const __m256d q = _mm256_castps_pd(y);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(p, q)), _mm256_castpd_ps(_mm256_unpackhi_pd(p, q)));
  };
  const __m256 first = pairs(fold[0], fold[1]);
  const __m256 second = pairs(fold[2], fold[3]);
  return _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x88), _mm256_shuffle_ps(first, second, 0xdd));
}

// The vector of the code that runs on more than x86 (paged_attention.h).
using F8 = __m256;
KNAP_INLINE F8 all8(float x) { return _mm256_set1_ps(x); }
KNAP_INLINE F8 load8(const float* p) { return _mm256_loadu_ps(p); }
KNAP_INLINE void store8(float* p, F8 v) { _mm256_storeu_ps(p, v); }
KNAP_INLINE F8 max8(F8 a, F8 b) { return _mm256_max_ps(a, b); }
// a * b + c, rounded once.
KNAP_INLINE F8 fused(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }

KNAP_INLINE float lane_max(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// All bits set in the first `count` lanes (1 to 7).
KNAP_INLINE __m256i first_lanes(std::int64_t count) {
  alignas(32) static constexpr std::int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ones + 8 - count));
}

// The first `count` (1 to 7).
KNAP_INLINE void store_first(float* p, F8 v, std::int64_t count) { _mm256_maskstore_ps(p, first_lanes(count), v); }

KNAP_INLINE __m256 load_halves(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The f16 at p in every lane.
KNAP_INLINE __m256 all_half(const std::byte* p) {
  return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(load_unaligned<std::uint16_t>(p))));
}

KNAP_INLINE __m128i load_8_bytes(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
KNAP_INLINE F8 signed_bytes(const std::byte* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8_bytes(p))); }
KNAP_INLINE __m128i load_16_bytes(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
KNAP_INLINE __m256i load_32_bytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// Rows of floats or halves: how eight of their columns are loaded.
struct LoadF32 {
  static constexpr int bytes = 4;
  static KNAP_INLINE __m256 eight(const std::byte* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
};
struct LoadF16 {
  static constexpr int bytes = 2;
  static KNAP_INLINE __m256 eight(const std::byte* p) { return load_halves(p); }
};

}  // namespace
}  // namespace knapsack
