// Block decoders for AVX2: 32 weights at a time into four vectors, the same values as FormatInfo::decode gives.
// Included by matmul_avx2.cc only. What the bytes mean stands in tensor/formats/*.cc.
//
// A decoder has `block` and `bytes`; `State`, what its scales are once unpacked; open(block) makes it; group(block,
// state, g, w) decodes weights 32g to 32g+31 of the block. Each group is one product code * scale (+ offset) a weight;
// where that is fused here and in two steps in the definition, the product has few enough bits to be exact, so the
// values are the same but for the sign of a zero.
#pragma once

#include "kernels/x86/avx2.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

KNAP_INLINE __m256 to_floats(__m256i codes) { return _mm256_cvtepi32_ps(codes); }

// Bytes 8i.. of q as unsigned or signed numbers.
KNAP_INLINE void unsigned_floats(__m256i q, __m256* w) {
  const __m128i low = _mm256_castsi256_si128(q);
  const __m128i high = _mm256_extracti128_si256(q, 1);
  w[0] = to_floats(_mm256_cvtepu8_epi32(low));
  w[1] = to_floats(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(low, low)));
  w[2] = to_floats(_mm256_cvtepu8_epi32(high));
  w[3] = to_floats(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(high, high)));
}
KNAP_INLINE void signed_floats(__m256i q, __m256* w) {
  const __m128i low = _mm256_castsi256_si128(q);
  const __m128i high = _mm256_extracti128_si256(q, 1);
  w[0] = to_floats(_mm256_cvtepi8_epi32(low));
  w[1] = to_floats(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(low, low)));
  w[2] = to_floats(_mm256_cvtepi8_epi32(high));
  w[3] = to_floats(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(high, high)));
}

// The 32 nibbles of 16 bytes, low ones first, as floats or as bytes.
KNAP_INLINE void nibble_floats(const std::byte* p, __m256* w) {
  const __m256i a = _mm256_cvtepu8_epi32(load_8_bytes(p));
  const __m256i b = _mm256_cvtepu8_epi32(load_8_bytes(p + 8));
  const __m256i mask = _mm256_set1_epi32(15);
  w[0] = to_floats(_mm256_and_si256(a, mask));
  w[1] = to_floats(_mm256_and_si256(b, mask));
  w[2] = to_floats(_mm256_srli_epi32(a, 4));
  w[3] = to_floats(_mm256_srli_epi32(b, 4));
}
KNAP_INLINE __m256i nibble_bytes(const std::byte* p) {
  const __m128i both = load_16_bytes(p);
  const __m256i all = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
  return _mm256_and_si256(all, _mm256_set1_epi8(15));
}

// 0xff in byte i where bit i of the 32 is set.
KNAP_INLINE __m256i bits_to_bytes(std::uint32_t bits) {
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int>(bits)),
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
}

// `value` in byte i where bit `bit` of byte i is set.
KNAP_INLINE __m256i select_bit(__m256i bytes, int bit, int value) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(1U << bit));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask),
                          _mm256_set1_epi8(static_cast<char>(value)));
}

KNAP_INLINE void scale_all(__m256 scale, __m256* w) {
  for (int i = 0; i < 4; ++i) w[i] = _mm256_mul_ps(scale, w[i]);
}
KNAP_INLINE void scale_all(__m256 scale, __m256 offset, __m256* w) {
  for (int i = 0; i < 4; ++i) w[i] = _mm256_fmadd_ps(scale, w[i], offset);
}

struct ScaleOffset {
  __m256 scale, offset;
};

struct DecodeQ4_0 {
  static constexpr int block = 32, bytes = 18;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) {
    const __m256 scale = all_half(p);
    return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-8.0F))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    nibble_floats(p + 2, w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ4_1 {
  static constexpr int block = 32, bytes = 20;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) { return {all_half(p), all_half(p + 2)}; }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    nibble_floats(p + 4, w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ5_0 {
  static constexpr int block = 32, bytes = 22;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) {
    const __m256 scale = all_half(p);
    return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-16.0F))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    const __m256i high = bits_to_bytes(load_unaligned<std::uint32_t>(p + 2));
    unsigned_floats(_mm256_or_si256(nibble_bytes(p + 6), _mm256_and_si256(high, _mm256_set1_epi8(16))), w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ5_1 {
  static constexpr int block = 32, bytes = 24;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) { return {all_half(p), all_half(p + 2)}; }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    const __m256i high = bits_to_bytes(load_unaligned<std::uint32_t>(p + 4));
    unsigned_floats(_mm256_or_si256(nibble_bytes(p + 8), _mm256_and_si256(high, _mm256_set1_epi8(16))), w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ8_0 {
  static constexpr int block = 32, bytes = 34;
  using State = __m256;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    for (int i = 0; i < 4; ++i) w[i] = to_floats(_mm256_cvtepi8_epi32(load_8_bytes(p + 2 + 8 * i)));
    scale_all(s, w);
  }
};

struct DecodeG4 {
  static constexpr int block = 32, bytes = 19;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) {
    const __m256 scale = all_half(p);
    return {scale, _mm256_mul_ps(scale, _mm256_set1_ps(-static_cast<float>(std::to_integer<int>(p[2]))))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    nibble_floats(p + 3, w);
    scale_all(s.scale, s.offset, w);
  }
};

// Its zero point has 16 bits: too many for a product that must be exact, so it goes first.
struct DecodeG8 {
  static constexpr int block = 32, bytes = 36;
  struct State {
    __m256 scale, zero;
  };
  static KNAP_INLINE State open(const std::byte* p) {
    return {all_half(p), _mm256_set1_ps(static_cast<float>(load_unaligned<std::uint16_t>(p + 2)))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    for (int i = 0; i < 4; ++i)
      w[i] =
          _mm256_mul_ps(s.scale, _mm256_sub_ps(to_floats(_mm256_cvtepu8_epi32(load_8_bytes(p + 4 + 8 * i))), s.zero));
  }
};

// Eight E4M3 codes: as halves they are 2^8 too small, and the conversion of halves takes subnormals at full speed.
KNAP_INLINE __m256 e4m3_floats(__m128i eight_bytes) {
  const __m128i wide = _mm_cvtepu8_epi16(eight_bytes);
  const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
  const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
  const __m128i nan = _mm_and_si128(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00));
  const __m128i half = _mm_or_si128(_mm_or_si128(sign, nan), _mm_slli_epi16(magnitude, 7));
  return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F));
}

struct DecodeF8_B32 {
  static constexpr int block = 32, bytes = 36;
  using State = __m256;
  static KNAP_INLINE State open(const std::byte* p) { return _mm256_set1_ps(load_unaligned<float>(p)); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    for (int i = 0; i < 4; ++i) w[i] = e4m3_floats(load_8_bytes(p + 4 + 8 * i));
    scale_all(s, w);
  }
};

// Sixteen levels by nibble.
KNAP_INLINE void level_floats(const std::byte* p, __m128i levels, __m256* w) {
  const __m256i table = _mm256_broadcastsi128_si256(levels);
  signed_floats(_mm256_shuffle_epi8(table, nibble_bytes(p)), w);
}
KNAP_INLINE __m128i iq4_table() {
  return load_16_bytes(reinterpret_cast<const std::byte*>(formats::iq4_levels.data()));
}

struct DecodeIQ4_NL {
  static constexpr int block = 32, bytes = 18;
  using State = __m256;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    level_floats(p + 2, iq4_table(), w);
    scale_all(s, w);
  }
};

struct DecodeMXFP4 {
  static constexpr int block = 32, bytes = 17;
  using State = __m256;
  static KNAP_INLINE State open(const std::byte* p) {
    const unsigned e = std::to_integer<unsigned>(p[0]);
    const std::uint32_t bits = e < 2 ? 0x00200000U << e : (e - 1) << 23;
    return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(bits)));
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, __m256* w) {
    level_floats(p + 1, _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12), w);
    scale_all(s, w);
  }
};

struct DecodeIQ4_XS {
  static constexpr int block = 256, bytes = 136;
  struct State {
    alignas(32) float scale[8];
  };
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    const __m256i place = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(load_unaligned<std::int32_t>(p + 4)), place);
    const __m256i high =
        _mm256_srlv_epi32(_mm256_set1_epi32(load_unaligned<std::uint16_t>(p + 2)), _mm256_srli_epi32(place, 1));
    const __m256i scale = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                          _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
    const __m256 shifted = to_floats(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
    _mm256_store_ps(s.scale, _mm256_mul_ps(all_half(p), shifted));
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    level_floats(p + 8 + 16 * g, iq4_table(), w);
    scale_all(_mm256_broadcast_ss(s.scale + g), w);
  }
};

// Scales and negated mins of Q4_K and Q5_K, multiplied by d and dmin.
struct KScales {
  alignas(32) float scale[8];
  float offset[8];
};
KNAP_INLINE KScales k_scales(const std::byte* p) {
  constexpr std::uint32_t six = 0x3f3f3f3f;
  constexpr std::uint32_t four = 0x0f0f0f0f;
  constexpr std::uint32_t two = 0x03030303;
  const auto a = load_unaligned<std::uint32_t>(p + 4);
  const auto b = load_unaligned<std::uint32_t>(p + 8);
  const auto c = load_unaligned<std::uint32_t>(p + 12);
  const std::uint64_t scales = (a & six) | static_cast<std::uint64_t>((c & four) | (a >> 6 & two) << 4) << 32;
  const std::uint64_t mins = (b & six) | static_cast<std::uint64_t>((c >> 4 & four) | (b >> 6 & two) << 4) << 32;
  const __m256 d = all_half(p);
  const __m256 dmin = _mm256_xor_ps(all_half(p + 2), _mm256_set1_ps(-0.0F));
  KScales s;
  const auto numbers = [](std::uint64_t eight) {
    return to_floats(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(eight))));
  };
  _mm256_store_ps(s.scale, _mm256_mul_ps(d, numbers(scales)));
  _mm256_store_ps(s.offset, _mm256_mul_ps(dmin, numbers(mins)));
  return s;
}

struct DecodeQ4_K {
  static constexpr int block = 256, bytes = 144;
  using State = KScales;
  static KNAP_INLINE State open(const std::byte* p) { return k_scales(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    const std::byte* codes = p + 16 + g / 2 * 32;
    for (int i = 0; i < 4; ++i) {
      const __m256i both = _mm256_cvtepu8_epi32(load_8_bytes(codes + 8 * i));
      w[i] = to_floats(g % 2 == 0 ? _mm256_and_si256(both, _mm256_set1_epi32(15)) : _mm256_srli_epi32(both, 4));
    }
    scale_all(_mm256_broadcast_ss(s.scale + g), _mm256_broadcast_ss(s.offset + g), w);
  }
};

struct DecodeQ5_K {
  static constexpr int block = 256, bytes = 176;
  using State = KScales;
  static KNAP_INLINE State open(const std::byte* p) { return k_scales(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    __m256i codes = load_32_bytes(p + 48 + g / 2 * 32);
    if (g % 2 != 0) codes = _mm256_srli_epi16(codes, 4);
    codes = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    unsigned_floats(_mm256_or_si256(codes, select_bit(load_32_bytes(p + 16), g, 16)), w);
    scale_all(_mm256_broadcast_ss(s.scale + g), _mm256_broadcast_ss(s.offset + g), w);
  }
};

// Sixteen scales (and offsets) a block: two a group of 32.
KNAP_INLINE void scale_halves(const float* scale, __m256* w) {
  const __m256 first = _mm256_broadcast_ss(scale);
  const __m256 second = _mm256_broadcast_ss(scale + 1);
  w[0] = _mm256_mul_ps(first, w[0]);
  w[1] = _mm256_mul_ps(first, w[1]);
  w[2] = _mm256_mul_ps(second, w[2]);
  w[3] = _mm256_mul_ps(second, w[3]);
}
KNAP_INLINE void store_16(__m256 factor, __m128i bytes, float* out) {
  _mm256_store_ps(out, _mm256_mul_ps(factor, to_floats(_mm256_cvtepi8_epi32(bytes))));
  _mm256_store_ps(out + 8, _mm256_mul_ps(factor, to_floats(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)))));
}

struct DecodeQ2_K {
  static constexpr int block = 256, bytes = 84;
  struct State {
    alignas(32) float scale[16];
    float offset[16];
  };
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    const __m128i both = load_16_bytes(p);
    const __m128i mask = _mm_set1_epi8(15);
    store_16(all_half(p + 80), _mm_and_si128(both, mask), s.scale);
    store_16(_mm256_xor_ps(all_half(p + 82), _mm256_set1_ps(-0.0F)), _mm_and_si128(_mm_srli_epi16(both, 4), mask),
             s.offset);
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    const __m256i codes = _mm256_srli_epi16(load_32_bytes(p + 16 + g / 4 * 32), g % 4 * 2);
    unsigned_floats(_mm256_and_si256(codes, _mm256_set1_epi8(3)), w);
    for (int i = 0; i < 4; ++i)
      w[i] = _mm256_fmadd_ps(_mm256_broadcast_ss(s.scale + 2 * g + i / 2), w[i],
                             _mm256_broadcast_ss(s.offset + 2 * g + i / 2));
  }
};

struct DecodeQ3_K {
  static constexpr int block = 256, bytes = 110;
  struct State {
    alignas(32) float scale[16];
  };
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    const __m128i low8 = load_8_bytes(p + 96);
    const __m128i low = _mm_and_si128(_mm_unpacklo_epi64(low8, _mm_srli_epi16(low8, 4)), _mm_set1_epi8(15));
    // Bits 2j of byte i of the last four are the upper bits of scale 4j + i.
    const __m128i high =
        _mm_srlv_epi32(_mm_set1_epi32(load_unaligned<std::int32_t>(p + 104)), _mm_setr_epi32(0, 2, 4, 6));
    const __m128i scale = _mm_or_si128(low, _mm_slli_epi16(_mm_and_si128(high, _mm_set1_epi8(3)), 4));
    store_16(all_half(p + 108), _mm_sub_epi8(scale, _mm_set1_epi8(32)), s.scale);
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    const __m256i codes = _mm256_srli_epi16(load_32_bytes(p + 32 + g / 4 * 32), g % 4 * 2);
    const __m256i all =
        _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi8(3)), select_bit(load_32_bytes(p), g, 4));
    signed_floats(_mm256_sub_epi8(all, _mm256_set1_epi8(4)), w);
    scale_halves(s.scale + 2 * g, w);
  }
};

struct DecodeQ6_K {
  static constexpr int block = 256, bytes = 210;
  struct State {
    alignas(32) float scale[16];
  };
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    store_16(all_half(p + 208), load_16_bytes(p + 192), s.scale);
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, __m256* w) {
    const int quarter = g % 4;
    __m256i low = load_32_bytes(p + g / 4 * 64 + quarter % 2 * 32);
    if (quarter >= 2) low = _mm256_srli_epi16(low, 4);
    const __m256i high = _mm256_srli_epi16(load_32_bytes(p + 128 + g / 4 * 32), 2 * quarter);
    const __m256i all = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                                        _mm256_slli_epi16(_mm256_and_si256(high, _mm256_set1_epi8(3)), 4));
    signed_floats(_mm256_sub_epi8(all, _mm256_set1_epi8(32)), w);
    scale_halves(s.scale + 2 * g, w);
  }
};

// Formats without blocks, eight weights at a time (LoadF32 and LoadF16 are in avx2.h).
struct LoadBF16 {
  static constexpr int bytes = 2;
  static KNAP_INLINE __m256 eight(const std::byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16_bytes(p)), 16));
  }
};
struct LoadF8_E4M3 {
  static constexpr int bytes = 1;
  static KNAP_INLINE __m256 eight(const std::byte* p) { return e4m3_floats(load_8_bytes(p)); }
};

}  // namespace
}  // namespace knapsack
