// The AVX2 pieces of packed.h: maddubs multiplies unsigned codes with signed activations and adds pairs in int16.
// How many such products fit before they must be widened: 127 * 2 * (2^bits - 1) each, so 8 of 4 bits, 4 of 5, 2 of 6;
// signed bytes go as |code| * (q with code's sign), 127 * 128 * 2, one.
#include <algorithm>
#include <limits>

#include "kernels/packed.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

// Vector v (0 to 7) of a block's codes: byte 4r + c is column 4v + c of row r.
template <int bits>
KNAP_INLINE __m256i codes_of(const std::byte* p, int v) {
  if constexpr (bits == 8) return load_32_bytes(p + 32 * v);
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i both = load_32_bytes(p + 32 * (v % 4));
  __m256i codes = _mm256_and_si256(v < 4 ? both : _mm256_srli_epi16(both, 4), low);
  if constexpr (bits == 5) {
    const __m256i high = load_32_bytes(p + 128);
    const __m256i there = v < 4 ? _mm256_slli_epi16(high, 4 - v) : _mm256_srli_epi16(high, v - 4);
    codes = _mm256_or_si256(codes, _mm256_and_si256(there, _mm256_set1_epi8(16)));
  }
  if constexpr (bits == 6) {
    const __m256i high = load_32_bytes(p + 128 + 32 * (v / 4));
    const int at = 2 * (v % 4);
    const __m256i there = at < 4 ? _mm256_slli_epi16(high, 4 - at) : _mm256_srli_epi16(high, at - 4);
    codes = _mm256_or_si256(codes, _mm256_and_si256(there, _mm256_set1_epi8(48)));
  }
  return codes;
}

// Columns 4v..4v+3 of a token's block, in every row's place.
KNAP_INLINE __m256i four_of(const std::int8_t* q, int v) {
  return _mm256_set1_epi32(load_unaligned<std::int32_t>(reinterpret_cast<const std::byte*>(q) + 4 * v));
}

// sums[t] (+)= the products of vectors [first, first + count) with T tokens, widened to int32 by row.
template <int bits, int T, int first, int count>
KNAP_INLINE void products(const std::byte* p, const std::int8_t* q, std::int64_t stride, bool more, __m256i* sums) {
  constexpr int fit = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
  constexpr int run = fit < count ? fit : count;
  const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int at = first; at < first + count; at += run) {
    __m256i pairs[T];
#pragma GCC unroll 8
    for (int v = at; v < at + run; ++v) {
      const __m256i w = codes_of<bits>(p, v);
      const __m256i size = bits == 8 ? _mm256_abs_epi8(w) : w;
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        __m256i x = four_of(q + t * stride, v);
        if constexpr (bits == 8) x = _mm256_sign_epi8(x, w);
        const __m256i product = _mm256_maddubs_epi16(size, x);
        pairs[t] = v == at ? product : _mm256_add_epi16(pairs[t], product);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const __m256i wide = _mm256_madd_epi16(pairs[t], ones);
      sums[t] = more || at != first ? _mm256_add_epi32(sums[t], wide) : wide;
    }
  }
}

// One panel with T tokens from `token` on.
template <int bits, int groups, bool min, int T>
KNAP_INLINE void tile(const PackedJob& job, std::int64_t panel, std::int64_t token) {
  constexpr PackedKind kind{.bits = bits, .groups = groups, .min = min};
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::byte* p = job.w->data.get() + panel * job.w->panel_bytes();
  const std::int8_t* q = job.x.q + token * cols;
  const float* d = job.x.d + token * blocks;
  const float* side = job.x.side + token * blocks * groups;
  __m256 y[T];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) y[t] = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < blocks; ++b, p += kind.block_bytes(), q += packed_block) {
    if constexpr (T == 1) {
      for (int at = 0; at < kind.block_bytes(); at += 64) __builtin_prefetch(p + 1536 + at);
    }
    const std::byte* factors = p + kind.code_bytes();
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      __m256i sums[T];
      if constexpr (groups == 1) {
        products<bits, T, 0, 8>(p, q, cols, false, sums);
      } else if (g == 0) {
        products<bits, T, 0, 4>(p, q, cols, false, sums);
      } else {
        products<bits, T, 4, 4>(p, q, cols, false, sums);
      }
      const __m256 scale = load_halves(factors + 16 * g);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const __m256 sum = _mm256_cvtepi32_ps(sums[t]);
        const __m256 step = _mm256_broadcast_ss(d + t * blocks + b);
        const __m256 more = _mm256_broadcast_ss(side + (t * blocks + b) * groups + g);
        if constexpr (min) {
          y[t] = _mm256_fmadd_ps(_mm256_mul_ps(sum, step), scale, y[t]);
          y[t] = _mm256_fmadd_ps(more, load_halves(factors + 16 * (groups + g)), y[t]);
        } else {
          y[t] = _mm256_fmadd_ps(_mm256_fmadd_ps(sum, step, more), scale, y[t]);
        }
      }
    }
  }
  const std::int64_t row = panel * packed_rows;
  const std::int64_t count = std::min(packed_rows, job.w->rows - row);
  for (int t = 0; t < T; ++t) {
    float* out = job.y + (token + t) * job.y_stride + row;
    if (count == packed_rows) {
      if (job.bias != nullptr) y[t] = _mm256_add_ps(y[t], _mm256_loadu_ps(job.bias + row));
      _mm256_storeu_ps(out, y[t]);
    } else {
      const __m256i mask = first_lanes(count);
      if (job.bias != nullptr) y[t] = _mm256_add_ps(y[t], _mm256_maskload_ps(job.bias + row, mask));
      _mm256_maskstore_ps(out, mask, y[t]);
    }
  }
}

constexpr int most_tokens = 4;  // of a tile: their sums, pairs and results fill the registers

template <int bits, int groups, bool min>
void panels_of(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel) {
    std::int64_t token = 0;
    for (; token + most_tokens <= job.tokens; token += most_tokens)
      tile<bits, groups, min, most_tokens>(job, panel, token);
    switch (job.tokens - token) {
      case 1:
        tile<bits, groups, min, 1>(job, panel, token);
        break;
      case 2:
        tile<bits, groups, min, 2>(job, panel, token);
        break;
      case 3:
        tile<bits, groups, min, 3>(job, panel, token);
        break;
      default:
        break;
    }
  }
}

template <int bits>
void panels_of_bits(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  const PackedKind& kind = job.w->kind;
  if (kind.groups == 1) {
    (kind.min ? panels_of<bits, 1, true> : panels_of<bits, 1, false>)(job, begin, end);
  } else {
    (kind.min ? panels_of<bits, 2, true> : panels_of<bits, 2, false>)(job, begin, end);
  }
}

void panels(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  switch (job.w->kind.bits) {
    case 4:
      return panels_of_bits<4>(job, begin, end);
    case 5:
      return panels_of_bits<5>(job, begin, end);
    case 6:
      return panels_of_bits<6>(job, begin, end);
    default:
      return panels_of_bits<8>(job, begin, end);
  }
}

KNAP_INLINE int lane_sum_int(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}

void round(const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const int factor = kind.side_factor();
  for (std::int64_t b = 0; b < cols / packed_block; ++b, x += packed_block) {
    __m256 in[4];
    __m256 most = _mm256_setzero_ps();
    __m256 odd = _mm256_setzero_ps();  // NaN where an x is no finite number
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      in[i] = _mm256_loadu_ps(x + 8 * i);
      most = _mm256_max_ps(most, _mm256_andnot_ps(sign, in[i]));
      odd = _mm256_add_ps(odd, _mm256_sub_ps(in[i], in[i]));
    }
    const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(odd, odd, _CMP_UNORD_Q)) == 0;
    const float largest = lane_max(most);
    float inverse = finite && largest > 0 ? 127.0F / largest : 0.0F;
    if (inverse > std::numeric_limits<float>::max()) inverse = 0;
    const float d = !finite ? std::numeric_limits<float>::quiet_NaN() : inverse > 0 ? largest / 127.0F : 0.0F;
    if (!finite) in[0] = in[1] = in[2] = in[3] = _mm256_setzero_ps();
    const __m256 by = _mm256_set1_ps(inverse);
    __m256i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(in[i], by));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + b * packed_block),
                        _mm256_permutevar8x32_epi32(bytes, order));
    out.d[b] = d;
    const int first = lane_sum_int(_mm256_add_epi32(q[0], q[1]));
    const int second = lane_sum_int(_mm256_add_epi32(q[2], q[3]));
    if (kind.groups == 1) {
      out.side[b] = static_cast<float>(factor * (first + second)) * d;
    } else {
      out.side[2 * b] = static_cast<float>(factor * first) * d;
      out.side[2 * b + 1] = static_cast<float>(factor * second) * d;
    }
  }
}

}  // namespace

const PackedTable& avx2_packed() {
  static constexpr PackedTable table{.round = round, .panels = panels};
  return table;
}

}  // namespace knapsack
