// How a panel is stored (PackedTable::store), for every x86 instruction set here: it is bound by memory, not
// arithmetic.
#include "kernels/packed.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

// Eight rows of eight 32-bit elements become eight vectors of one column each.
KNAP_INLINE void transpose(__m256i (&m)[8]) {
  __m256i pairs[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(m[i], m[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(m[i], m[i + 1]);
  }
  __m256i fours[8];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    m[i] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x20);
    m[i + 4] = _mm256_permute2x128_si256(fours[i], fours[i + 4], 0x31);
  }
}

KNAP_INLINE void store_32_bytes(std::byte* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

// Codes by vector, as packed.h lays them out.
void store_codes(int bits, const __m256i (&codes)[8], std::byte* out) {
  if (bits == 8) {
    for (int v = 0; v < 8; ++v) store_32_bytes(out + 32 * v, codes[v]);
    return;
  }
  const __m256i low = _mm256_set1_epi8(15);
  for (int v = 0; v < 4; ++v)
    store_32_bytes(out + 32 * v, _mm256_or_si256(_mm256_and_si256(codes[v], low),
                                                 _mm256_slli_epi16(_mm256_and_si256(codes[v + 4], low), 4)));
  // The upper bits of vector v, moved to where they belong: no bit leaves its byte.
  const auto upper = [&](int v, char mask, int to) {
    return _mm256_sll_epi16(_mm256_srli_epi16(_mm256_and_si256(codes[v], _mm256_set1_epi8(mask)), 4),
                            _mm_cvtsi32_si128(to));
  };
  if (bits == 5) {
    __m256i fifth = _mm256_setzero_si256();
    for (int v = 0; v < 8; ++v) fifth = _mm256_or_si256(fifth, upper(v, 16, v));
    store_32_bytes(out + 128, fifth);
  }
  if (bits == 6)
    for (const int half : {0, 1}) {
      __m256i two = _mm256_setzero_si256();
      for (int v = 0; v < 4; ++v) two = _mm256_or_si256(two, upper(4 * half + v, 48, 2 * v));
      store_32_bytes(out + 128 + 32 * half, two);
    }
}

}  // namespace

bool avx2_store_panel(const PackedKind& kind, const Levels& from, std::int64_t cols, std::byte* panel) {
  const std::int64_t groups = cols / level_group;
  const __m256i rows =
      _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(static_cast<int>(groups)));
  const __m256 sign = _mm256_set1_ps(-0.0F);
  __m256 fits = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
  const auto halves = [&](const float* at, std::byte* to) {
    const __m256 value = _mm256_i32gather_ps(at, rows, 4);
    const __m128i half = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), half);
    const __m256 error = _mm256_andnot_ps(sign, _mm256_sub_ps(_mm256_cvtph_ps(half), value));
    const __m256 most = _mm256_mul_ps(_mm256_andnot_ps(sign, value), _mm256_set1_ps(0x1p-11F));
    fits = _mm256_and_ps(fits, _mm256_cmp_ps(error, most, _CMP_LE_OQ));
  };
  for (std::int64_t i = 0; i < cols / packed_block; ++i, panel += kind.block_bytes()) {
    __m256i codes[8];
    for (int r = 0; r < 8; ++r)
      codes[r] = load_32_bytes(reinterpret_cast<const std::byte*>(from.codes) + r * cols + i * packed_block);
    transpose(codes);
    store_codes(kind.bits, codes, panel);
    std::byte* out = panel + kind.code_bytes();
    for (int g = 0; g < kind.groups; ++g) {
      halves(from.scales + 2 * i + g, out + 16 * g);
      if (kind.min) halves(from.mins + 2 * i + g, out + 16 * (kind.groups + g));
    }
  }
  return _mm256_movemask_ps(fits) == 255;
}

}  // namespace knapsack
