// attention: paged_attention.h with AVX-512's vectors, and AVX2's bits. Scores of four keys with six queries, a vector
// holding the eight lanes of two keys; values by sixteen columns.
#include <array>

#include "kernels/x86/kernels_avx512.h"
#include "kernels/x86/tile_avx2.h"

#include "kernels/paged_attention.h"  // after what it is written over

namespace knapsack::avx512 {
namespace {

constexpr int pairs = tile_rows / 2;  // of keys

struct WideF32 : LoadF32 {
  static KNAP_INLINE __m512 sixteen(const std::byte* p) { return _mm512_loadu_ps(reinterpret_cast<const float*>(p)); }
  // Eight columns of two rows.
  static KNAP_INLINE __m512 two(const std::byte* a, const std::byte* b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(eight(a)), eight(b), 1);
  }
};
struct WideF16 : LoadF16 {
  static KNAP_INLINE __m512 sixteen(const std::byte* p) { return _mm512_cvtph_ps(load_32_bytes(p)); }
  static KNAP_INLINE __m512 two(const std::byte* a, const std::byte* b) {
    return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(load_16_bytes(a)), load_16_bytes(b), 1));
  }
};

// The lane sums of four keys with each query: sums[i][t] holds the lanes of keys 2i and 2i + 1. scores[t * stride] are
// those of query t. Taken one by one, as below for fewer queries, they cost more than the products before them: most of
// it is moving lanes, for which there is one port.
constexpr int sum_queries = 6;

KNAP_INLINE void store_lane_sums(const __m512 (&sums)[pairs][sum_queries], std::int64_t stride, float* scores) {
  // Lane i + 4 is added to lane i. Four lanes each of keys 0, 2, 1 and 3.
  const __m512i other_half = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
  __m512 four[sum_queries];
#pragma GCC unroll 6
  for (int t = 0; t < sum_queries; ++t)
    four[t] = _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, sums[0][t], sums[1][t]),
                            _mm512_permutex2var_ps(sums[0][t], other_half, sums[1][t]));
  // Lane i + 2 to lane i: two each of an even and the next query.
  __m512 two[sum_queries / 2];
#pragma GCC unroll 3
  for (int i = 0; i < sum_queries / 2; ++i)
    two[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, four[2 * i], four[2 * i + 1]),
                           _mm512_shuffle_ps(four[2 * i], four[2 * i + 1], 0x4e));
  const auto last = [](__m512 a, __m512 b) {
    const __m512 sum = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    const __m512i by_query = _mm512_setr_epi32(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15);
    return _mm512_permutexvar_ps(by_query, sum);
  };
  const __m512 first_four = last(two[0], two[1]);
  const __m512 last_two = last(two[2], two[2]);
  _mm_store_ps(scores, _mm512_castps512_ps128(first_four));
  _mm_store_ps(scores + stride, _mm512_extractf32x4_ps(first_four, 1));
  _mm_store_ps(scores + 2 * stride, _mm512_extractf32x4_ps(first_four, 2));
  _mm_store_ps(scores + 3 * stride, _mm512_extractf32x4_ps(first_four, 3));
  _mm_store_ps(scores + 4 * stride, _mm512_castps512_ps128(last_two));
  _mm_store_ps(scores + 5 * stride, _mm512_extractf32x4_ps(last_two, 1));
}

template <class L, int T>
void wide_score_tile(const PageRows& k, const PageRows& v, std::int64_t v_bytes, const float* q, std::int64_t width,
                     std::int64_t begin, std::int64_t end, std::int64_t stride, float* scores) {
  for (std::int64_t p = begin; p < end; p += tile_rows) {
    const std::byte* keys = k.at + p * k.stride;
    // As in attention_avx2.cc.
    for (std::int64_t r = 0; v_bytes > 0 && r < tile_rows; ++r) {
      for (std::int64_t at = 0; at < width * L::bytes; at += 64)
        __builtin_prefetch(keys + (4 * tile_rows + r) * k.stride + at);
      for (std::int64_t at = 0; at < v_bytes; at += 64) __builtin_prefetch(v.at + (p + r) * v.stride + at);
    }
    __m512 sums[pairs][T];
#pragma GCC unroll 2
    for (int i = 0; i < pairs; ++i)
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) sums[i][t] = _mm512_setzero_ps();
    for (std::int64_t c = 0; c < width; c += 8) {
      __m512 x[T];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) x[t] = _mm512_broadcast_f32x8(_mm256_loadu_ps(q + t * width + c));
#pragma GCC unroll 2
      for (int i = 0; i < pairs; ++i) {
        const std::byte* row = keys + 2 * i * k.stride + c * L::bytes;
        const __m512 two = L::two(row, row + k.stride);
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) sums[i][t] = _mm512_fmadd_ps(two, x[t], sums[i][t]);
      }
    }
    if constexpr (T == sum_queries) {
      store_lane_sums(sums, stride, scores + p);
    } else {
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        _mm_store_ps(scores + t * stride + p,
                     lane_sums(_mm512_castps512_ps256(sums[0][t]), _mm512_extractf32x8_ps(sums[0][t], 1),
                               _mm512_castps512_ps256(sums[1][t]), _mm512_extractf32x8_ps(sums[1][t], 1)));
    }
  }
}

// N vectors of sixteen columns.
template <class L, int T, int N>
KNAP_INLINE void add_sixteens(const PageRows& v, std::int64_t column, std::int64_t width, const float* weights,
                              std::int64_t stride, std::int64_t begin, std::int64_t end, float* out,
                              const PageRows& next) {
  __m512 sums[T][N];
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sums[t][n] = _mm512_loadu_ps(out + t * width + column + 16 * n);
  for (std::int64_t p = begin; p < end; ++p) {
    for (int line = 0; line < N; line += 2) __builtin_prefetch(next.at + p * next.stride + 2 * column + 32 * line);
    __m512 weight[T];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) weight[t] = _mm512_set1_ps(weights[t * stride + p]);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const __m512 value = L::sixteen(v.at + p * v.stride + (column + 16 * n) * L::bytes);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) sums[t][n] = _mm512_fmadd_ps(weight[t], value, sums[t][n]);
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) _mm512_storeu_ps(out + t * width + column + 16 * n, sums[t][n]);
}

// The last eight columns of a width that is no multiple of sixteen.
template <class L, int T>
KNAP_INLINE void add_eight(const PageRows& v, std::int64_t column, std::int64_t width, const float* weights,
                           std::int64_t stride, std::int64_t begin, std::int64_t end, float* out) {
  for (int t = 0; t < T; ++t) {
    float* y = out + t * width + column;
    __m256 sum = _mm256_loadu_ps(y);
    for (std::int64_t p = begin; p < end; ++p)
      sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weights + t * stride + p),
                            L::eight(v.at + p * v.stride + column * L::bytes), sum);
    _mm256_storeu_ps(y, sum);
  }
}

template <class L, int T>
void wide_value_tile(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride,
                     std::int64_t begin, std::int64_t end, float* out, const PageRows& next) {
  std::int64_t c = 0;
  for (; c + 64 <= width; c += 64) add_sixteens<L, T, 4>(v, c, width, weights, stride, begin, end, out, next);
  for (; c + 16 <= width; c += 16) add_sixteens<L, T, 1>(v, c, width, weights, stride, begin, end, out, next);
  if (c < width) add_eight<L, T>(v, c, width, weights, stride, begin, end, out);
}

template <class L>
constexpr auto wide_score_tiles = std::to_array<ScoreFn>({wide_score_tile<L, 1>, wide_score_tile<L, 2>,
                                                          wide_score_tile<L, 3>, wide_score_tile<L, 4>,
                                                          wide_score_tile<L, 5>, wide_score_tile<L, 6>});
template <class L>
constexpr auto wide_value_tiles = std::to_array<ValueFn>({wide_value_tile<L, 1>, wide_value_tile<L, 2>,
                                                          wide_value_tile<L, 3>, wide_value_tile<L, 4>,
                                                          wide_value_tile<L, 5>, wide_value_tile<L, 6>});

struct Avx512 {
  static constexpr std::int64_t tile_vectors = 6;
  static ScoreFn score(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? wide_score_tiles<WideF16>
                                : wide_score_tiles<WideF32>)[static_cast<std::size_t>(queries - 1)];
  }
  static ValueFn value(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? wide_value_tiles<WideF16>
                                : wide_value_tiles<WideF32>)[static_cast<std::size_t>(queries - 1)];
  }
};

}  // namespace

void attention(const OpCall& call) { paged_attention<Avx512>(call); }

}  // namespace knapsack::avx512
