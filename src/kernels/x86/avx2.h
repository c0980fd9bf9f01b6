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

// The vector of the code that runs on more than x86 (paged_attention.h, small_ops.h).
using F8 = __m256;
KNAP_INLINE F8 all8(float x) { return _mm256_set1_ps(x); }
KNAP_INLINE F8 load8(const float* p) { return _mm256_loadu_ps(p); }
KNAP_INLINE void store8(float* p, F8 v) { _mm256_storeu_ps(p, v); }
KNAP_INLINE F8 max8(F8 a, F8 b) { return _mm256_max_ps(a, b); }
// a * b + c, rounded once.
KNAP_INLINE F8 fused(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
// c - a * b, rounded once.
KNAP_INLINE F8 fused_minus(F8 a, F8 b, F8 c) { return _mm256_fnmadd_ps(a, b, c); }
// max and min return their second operand when it is NaN.
KNAP_INLINE F8 clamp8(F8 x, float least, float most) {
  return _mm256_min_ps(_mm256_set1_ps(most), _mm256_max_ps(_mm256_set1_ps(least), x));
}
KNAP_INLINE F8 nearest8(F8 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// x * 2^n for whole n, in two steps, so that results reach down to subnormals and up to infinity.
KNAP_INLINE F8 times_power(F8 x, F8 n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const auto power = [](__m256i k) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(x, power(half)), power(_mm256_sub_epi32(whole, half)));
}
// Sine and cosine of r + n * pi/2 from those of r, s and c.
KNAP_INLINE void turn_quadrants(F8 n, F8 s, F8 c, F8& sine, F8& cosine) {
  const __m256i quadrant = _mm256_cvtps_epi32(n);
  const __m256 swap = _mm256_castsi256_ps(_mm256_slli_epi32(quadrant, 31));  // odd: blendv looks at the top bit
  const __m256i two = _mm256_set1_epi32(2);
  const auto sign = [&](__m256i q) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(q, two), 30)); };
  sine = _mm256_xor_ps(_mm256_blendv_ps(s, c, swap), sign(quadrant));
  cosine = _mm256_xor_ps(_mm256_blendv_ps(c, s, swap), sign(_mm256_add_epi32(quadrant, _mm256_set1_epi32(1))));
}
// Eight pairs (a, b) that lie side by side become (a * c - b * s, b * c + a * s).
KNAP_INLINE void rotate_pairs(const float* from, float* to, F8 c, F8 s) {
#pragma GCC unroll 2
  for (int part = 0; part < 2; ++part) {
    // c and s doubled to each pair; the partner's product is subtracted from the first and added to the second.
    const __m256i twice =
        part == 0 ? _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3) : _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    const __m256 v = _mm256_loadu_ps(from + 8 * part);
    const __m256 partner = _mm256_permute_ps(v, 0xb1);
    _mm256_storeu_ps(to + 8 * part, _mm256_addsub_ps(_mm256_mul_ps(v, _mm256_permutevar8x32_ps(c, twice)),
                                                     _mm256_mul_ps(partner, _mm256_permutevar8x32_ps(s, twice))));
  }
}
// Squares, summed in double in eight lanes; lanes i and i + 4 come together first, then i and i + 2.
class Squares {
 public:
  KNAP_INLINE void add(F8 x) {
    low_ = add_squares(low_, _mm256_castps256_ps128(x));
    high_ = add_squares(high_, _mm256_extractf128_ps(x, 1));
  }
  [[nodiscard]] KNAP_INLINE double sum() const {
    const __m256d four = _mm256_add_pd(low_, high_);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

 private:
  static KNAP_INLINE __m256d add_squares(__m256d sum, __m128 x) {
    const __m256d wide = _mm256_cvtps_pd(x);
    return _mm256_fmadd_pd(wide, wide, sum);
  }
  __m256d low_ = _mm256_setzero_pd(), high_ = _mm256_setzero_pd();
};

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

// The first `count` (1 to 7) of eight; zeros after them.
KNAP_INLINE F8 load_first(const float* p, std::int64_t count) { return _mm256_maskload_ps(p, first_lanes(count)); }
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
