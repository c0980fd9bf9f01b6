// Block decoders for NEON: 32 weights at a time into four vectors of eight, the same values as FormatInfo::decode
// gives. Included by matmul_neon.cc only. What the bytes mean stands in tensor/formats/*.cc; a decoder's parts, and why
// one rounding does where the definition has two, in x86/decode_avx2.h, whose steps these are.
#pragma once

#include "kernels/arm/neon.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

// One byte for each of a group's 32 weights.
struct Codes {
  uint8x16_t first, second;
};

KNAP_INLINE uint8x16_t load_16_bytes(const std::byte* p) { return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)); }
KNAP_INLINE uint8x8_t load_8_bytes(const std::byte* p) { return vld1_u8(reinterpret_cast<const std::uint8_t*>(p)); }
KNAP_INLINE Codes load_codes(const std::byte* p) { return {load_16_bytes(p), load_16_bytes(p + 16)}; }

KNAP_INLINE F8 unsigned_floats(uint8x8_t codes) {
  const uint16x8_t wide = vmovl_u8(codes);
  return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide))};
}
KNAP_INLINE F8 signed_floats(int8x8_t codes) {
  const int16x8_t wide = vmovl_s8(codes);
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))};
}
KNAP_INLINE void unsigned_floats(Codes codes, F8* w) {
  w[0] = unsigned_floats(vget_low_u8(codes.first));
  w[1] = unsigned_floats(vget_high_u8(codes.first));
  w[2] = unsigned_floats(vget_low_u8(codes.second));
  w[3] = unsigned_floats(vget_high_u8(codes.second));
}
KNAP_INLINE void signed_floats(int8x16_t first, int8x16_t second, F8* w) {
  w[0] = signed_floats(vget_low_s8(first));
  w[1] = signed_floats(vget_high_s8(first));
  w[2] = signed_floats(vget_low_s8(second));
  w[3] = signed_floats(vget_high_s8(second));
}
// Codes that stand for numbers from -zero on.
KNAP_INLINE void shifted_floats(Codes codes, int zero, F8* w) {
  const int8x16_t less = vdupq_n_s8(static_cast<std::int8_t>(zero));
  signed_floats(vreinterpretq_s8_u8(codes.first) - less, vreinterpretq_s8_u8(codes.second) - less, w);
}

// The 32 nibbles of 16 bytes, low ones first.
KNAP_INLINE Codes nibbles(const std::byte* p) {
  const uint8x16_t both = load_16_bytes(p);
  return {both & 15, both >> 4};
}
// What `mask` leaves of each of 32 bytes, from bit `at` on.
KNAP_INLINE Codes bits_from(const std::byte* p, int at, std::uint8_t mask) {
  const Codes all = load_codes(p);
  const int8x16_t shift = vdupq_n_s8(static_cast<std::int8_t>(-at));
  return {vshlq_u8(all.first, shift) & mask, vshlq_u8(all.second, shift) & mask};
}

// `value` in byte i where bit i of the 32 at p is set.
KNAP_INLINE Codes spread_bits(const std::byte* p, int value) {
  const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ULL));
  const auto sixteen = [&](const std::byte* two) {
    const auto byte = [&](int i) { return vdup_n_u8(std::to_integer<std::uint8_t>(two[i])); };
    return vtstq_u8(vcombine_u8(byte(0), byte(1)), bit) & static_cast<std::uint8_t>(value);
  };
  return {sixteen(p), sixteen(p + 2)};
}
// `value` in byte i where bit `bit` of byte i is set.
KNAP_INLINE Codes select_bit(const std::byte* p, int bit, int value) {
  const Codes all = load_codes(p);
  const uint8x16_t mask = vdupq_n_u8(static_cast<std::uint8_t>(1U << bit));
  const auto chosen = static_cast<std::uint8_t>(value);
  return {vtstq_u8(all.first, mask) & chosen, vtstq_u8(all.second, mask) & chosen};
}
KNAP_INLINE Codes operator|(Codes a, Codes b) { return {a.first | b.first, a.second | b.second}; }

KNAP_INLINE void scale_all(F8 scale, F8* w) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) w[i] = scale * w[i];
}
KNAP_INLINE void scale_all(F8 scale, F8 offset, F8* w) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) w[i] = fused(scale, w[i], offset);
}

struct ScaleOffset {
  F8 scale, offset;
};

struct DecodeQ4_0 {
  static constexpr int block = 32, bytes = 18;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    shifted_floats(nibbles(p + 2), 8, w);
    scale_all(s, w);
  }
};

struct DecodeQ4_1 {
  static constexpr int block = 32, bytes = 20;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) { return {all_half(p), all_half(p + 2)}; }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    unsigned_floats(nibbles(p + 4), w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ5_0 {
  static constexpr int block = 32, bytes = 22;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    shifted_floats(nibbles(p + 6) | spread_bits(p + 2, 16), 16, w);
    scale_all(s, w);
  }
};

struct DecodeQ5_1 {
  static constexpr int block = 32, bytes = 24;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) { return {all_half(p), all_half(p + 2)}; }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    unsigned_floats(nibbles(p + 8) | spread_bits(p + 4, 16), w);
    scale_all(s.scale, s.offset, w);
  }
};

struct DecodeQ8_0 {
  static constexpr int block = 32, bytes = 34;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    const Codes codes = load_codes(p + 2);
    signed_floats(vreinterpretq_s8_u8(codes.first), vreinterpretq_s8_u8(codes.second), w);
    scale_all(s, w);
  }
};

struct DecodeG4 {
  static constexpr int block = 32, bytes = 19;
  using State = ScaleOffset;
  static KNAP_INLINE State open(const std::byte* p) {
    const F8 scale = all_half(p);
    return {scale, scale * all8(-static_cast<float>(std::to_integer<int>(p[2])))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    unsigned_floats(nibbles(p + 3), w);
    scale_all(s.scale, s.offset, w);
  }
};

// Its zero point has 16 bits: too many for a product that must be exact, so it goes first.
struct DecodeG8 {
  static constexpr int block = 32, bytes = 36;
  struct State {
    F8 scale, zero;
  };
  static KNAP_INLINE State open(const std::byte* p) {
    return {all_half(p), all8(static_cast<float>(load_unaligned<std::uint16_t>(p + 2)))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    unsigned_floats(load_codes(p + 4), w);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) w[i] = s.scale * (w[i] - s.zero);
  }
};

// Eight E4M3 codes: as halves they are 2^8 too small.
KNAP_INLINE F8 e4m3_floats(uint8x8_t codes) {
  const uint16x8_t wide = vmovl_u8(codes);
  const uint16x8_t magnitude = wide & 0x7f;
  const uint16x8_t nan = vceqq_u16(magnitude, vdupq_n_u16(0x7f)) & 0x7e00;
  const uint16x8_t half = (wide & 0x80) << 8 | nan | magnitude << 7;
  const F8 small{vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(half))),
                 vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(half)))};
  return small * all8(256.0F);
}

struct DecodeF8_B32 {
  static constexpr int block = 32, bytes = 36;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) { return all8(load_unaligned<float>(p)); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) w[i] = e4m3_floats(load_8_bytes(p + 4 + 8 * i));
    scale_all(s, w);
  }
};

// Sixteen levels by nibble.
KNAP_INLINE void level_floats(const std::byte* p, const std::int8_t* levels, F8* w) {
  const int8x16_t table = vld1q_s8(levels);
  const Codes codes = nibbles(p);
  signed_floats(vqtbl1q_s8(table, codes.first), vqtbl1q_s8(table, codes.second), w);
}

struct DecodeIQ4_NL {
  static constexpr int block = 32, bytes = 18;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) { return all_half(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    level_floats(p + 2, formats::iq4_levels.data(), w);
    scale_all(s, w);
  }
};

struct DecodeMXFP4 {
  static constexpr int block = 32, bytes = 17;
  using State = F8;
  static KNAP_INLINE State open(const std::byte* p) {
    const auto e = std::to_integer<std::uint32_t>(p[0]);
    const std::uint32_t bits = e < 2 ? 0x00200000U << e : (e - 1) << 23;
    return {vreinterpretq_f32_u32(vdupq_n_u32(bits)), vreinterpretq_f32_u32(vdupq_n_u32(bits))};
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int, F8* w) {
    static constexpr std::array<std::int8_t, 16> doubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    level_floats(p + 1, doubled.data(), w);
    scale_all(s, w);
  }
};

// Of a block of 256: factors of its groups of 32, or of its halves of groups.
struct Scales8 {
  std::array<float, 8> scale;
};
struct Scales16 {
  std::array<float, 16> scale;
};
KNAP_INLINE void store_16(F8 factor, int8x16_t numbers, float* out) {
  store8(out, factor * signed_floats(vget_low_s8(numbers)));
  store8(out + 8, factor * signed_floats(vget_high_s8(numbers)));
}
KNAP_INLINE void scale_halves(const float* scale, F8* w) {
  w[0] = all8(scale[0]) * w[0];
  w[1] = all8(scale[0]) * w[1];
  w[2] = all8(scale[1]) * w[2];
  w[3] = all8(scale[1]) * w[3];
}

struct DecodeIQ4_XS {
  static constexpr int block = 256, bytes = 136;
  using State = Scales8;
  static KNAP_INLINE State open(const std::byte* p) {
    const auto high = load_unaligned<std::uint16_t>(p + 2);
    const float d = half_to_float(load_unaligned<std::uint16_t>(p));
    State s;
    for (unsigned g = 0; g < 8; ++g) {
      const unsigned low = std::to_integer<unsigned>(p[4 + g / 2]) >> g % 2 * 4 & 15U;
      s.scale[g] = d * static_cast<float>(static_cast<int>(low | (high >> 2 * g & 3U) << 4) - 32);
    }
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    level_floats(p + 8 + std::ptrdiff_t{16} * g, formats::iq4_levels.data(), w);
    scale_all(all8(s.scale[static_cast<std::size_t>(g)]), w);
  }
};

struct DecodeQ2_K {
  static constexpr int block = 256, bytes = 84;
  struct State {
    std::array<float, 16> scale, offset;
  };
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    const uint8x16_t both = load_16_bytes(p);
    store_16(all_half(p + 80), vreinterpretq_s8_u8(both & 15), s.scale.data());
    store_16(-all_half(p + 82), vreinterpretq_s8_u8(both >> 4), s.offset.data());
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    unsigned_floats(bits_from(p + 16 + g / 4 * 32, g % 4 * 2, 3), w);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto half = static_cast<std::size_t>(2 * g + i / 2);
      w[i] = fused(all8(s.scale[half]), w[i], all8(s.offset[half]));
    }
  }
};

struct DecodeQ3_K {
  static constexpr int block = 256, bytes = 110;
  using State = Scales16;
  static KNAP_INLINE State open(const std::byte* p) {
    const uint8x8_t low8 = load_8_bytes(p + 96);
    const uint8x16_t low = vcombine_u8(low8 & 15, low8 >> 4);
    // Bits 2j of byte i of the last four are the upper bits of scale 4j + i.
    static constexpr std::array<std::int32_t, 4> back = {0, -2, -4, -6};
    const uint32x4_t high = vshlq_u32(vdupq_n_u32(load_unaligned<std::uint32_t>(p + 104)), vld1q_s32(back.data()));
    const uint8x16_t scale = low | (vreinterpretq_u8_u32(high) & 3) << 4;
    State s;
    store_16(all_half(p + 108), vreinterpretq_s8_u8(scale) - vdupq_n_s8(32), s.scale.data());
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    shifted_floats(bits_from(p + 32 + g / 4 * 32, g % 4 * 2, 3) | select_bit(p, g, 4), 4, w);
    scale_halves(s.scale.data() + std::ptrdiff_t{2} * g, w);
  }
};

// Scales and negated mins of Q4_K and Q5_K, multiplied by d and dmin.
struct KScales {
  std::array<float, 8> scale, offset;
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
  KScales s;
  store8(s.scale.data(), all_half(p) * unsigned_floats(vcreate_u8(scales)));
  store8(s.offset.data(), -all_half(p + 2) * unsigned_floats(vcreate_u8(mins)));
  return s;
}
KNAP_INLINE void scale_group(const KScales& s, int g, F8* w) {
  const auto at = static_cast<std::size_t>(g);
  scale_all(all8(s.scale[at]), all8(s.offset[at]), w);
}

struct DecodeQ4_K {
  static constexpr int block = 256, bytes = 144;
  using State = KScales;
  static KNAP_INLINE State open(const std::byte* p) { return k_scales(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    unsigned_floats(bits_from(p + 16 + g / 2 * 32, g % 2 * 4, 15), w);
    scale_group(s, g, w);
  }
};

struct DecodeQ5_K {
  static constexpr int block = 256, bytes = 176;
  using State = KScales;
  static KNAP_INLINE State open(const std::byte* p) { return k_scales(p); }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    unsigned_floats(bits_from(p + 48 + g / 2 * 32, g % 2 * 4, 15) | select_bit(p + 16, g, 16), w);
    scale_group(s, g, w);
  }
};

struct DecodeQ6_K {
  static constexpr int block = 256, bytes = 210;
  using State = Scales16;
  static KNAP_INLINE State open(const std::byte* p) {
    State s;
    store_16(all_half(p + 208), vreinterpretq_s8_u8(load_16_bytes(p + 192)), s.scale.data());
    return s;
  }
  static KNAP_INLINE void group(const std::byte* p, const State& s, int g, F8* w) {
    const int quarter = g % 4;
    const Codes low = bits_from(p + g / 4 * 64 + quarter % 2 * 32, quarter / 2 * 4, 15);
    const Codes high = bits_from(p + 128 + g / 4 * 32, 2 * quarter, 3);
    shifted_floats(low | Codes{high.first << 4, high.second << 4}, 32, w);
    scale_halves(s.scale.data() + std::ptrdiff_t{2} * g, w);
  }
};

// Without blocks, eight weights at a time (the others are in neon.h).
struct LoadF8_E4M3 {
  static constexpr int bytes = 1;
  static KNAP_INLINE F8 eight(const std::byte* p) { return e4m3_floats(load_8_bytes(p)); }
};

}  // namespace
}  // namespace knapsack
