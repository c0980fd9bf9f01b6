// Integer products (packed.h) for ARM: everything but the products themselves, in which the instruction sets differ. A
// file that includes this brings `Products` with
//   template <int bits, int T, int first, int count>
//   static void add(const std::byte* codes, const std::int8_t* q, std::int64_t q_stride, int32x4_t (&sums)[T][2]);
// which sets sums[t][h] to the products of rows 4h to 4h+3 with token t over vectors [first, first + count) of a block,
// and gets its table with packed_table_of<Products, tokens of a tile>(). Included by packed_*.cc of this folder only.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/arm/neon.h"
#include "kernels/packed.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

KNAP_INLINE uint8x16_t load_codes(const std::byte* p) { return vld1q_u8(reinterpret_cast<const std::uint8_t*>(p)); }

// Half `h` of vector v (0 to 7) of a block's codes: byte 4r + c is column 4v + c of row 4h + r.
template <int bits>
KNAP_INLINE int8x16_t codes_of(const std::byte* p, int v, int h) {
  p += 16 * h;
  if constexpr (bits == 8) return vreinterpretq_s8_u8(load_codes(p + 32 * v));
  const uint8x16_t both = load_codes(p + 32 * (v % 4));
  uint8x16_t codes = v < 4 ? both & 15 : both >> 4;
  if constexpr (bits == 5) {
    const uint8x16_t high = load_codes(p + 128);
    codes |= (v < 4 ? high << (4 - v) : high >> (v - 4)) & 16;
  }
  if constexpr (bits == 6) {
    const uint8x16_t high = load_codes(p + 128 + 32 * (v / 4));
    const int at = 2 * (v % 4);
    codes |= (at < 4 ? high << (4 - at) : high >> (at - 4)) & 48;
  }
  return vreinterpretq_s8_u8(codes);
}

// Four f16 as floats.
KNAP_INLINE float32x4_t four_halves(const std::byte* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))));
}

// One panel with T tokens from `token` on.
template <class Products, int bits, int groups, bool min, int T>
void tile(const PackedJob& job, std::int64_t panel, std::int64_t token) {
  constexpr PackedKind kind{.bits = bits, .groups = groups, .min = min};
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::byte* p = job.w->data.get() + panel * job.w->panel_bytes();
  const std::int8_t* q = job.x.q + token * cols;
  const float* d = job.x.d + token * blocks;
  const float* side = job.x.side + token * blocks * groups;
  float32x4_t y[T][2];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) y[t][0] = y[t][1] = vdupq_n_f32(0);
  const std::int64_t ahead = job.w->choice.ahead;
  for (std::int64_t b = 0; b < blocks; ++b, p += kind.block_bytes(), q += packed_block) {
    if constexpr (T == 1) {
      for (int at = 0; at < kind.block_bytes() && ahead > 0; at += 64) __builtin_prefetch(p + ahead + at);
    }
    const std::byte* factors = p + kind.code_bytes();
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      int32x4_t sums[T][2];
      if constexpr (groups == 1) {
        Products::template add<bits, T, 0, 8>(p, q, cols, sums);
      } else if (g == 0) {
        Products::template add<bits, T, 0, 4>(p, q, cols, sums);
      } else {
        Products::template add<bits, T, 4, 4>(p, q, cols, sums);
      }
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        const float32x4_t scale = four_halves(factors + 16 * g + 8 * h);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) {
          const float32x4_t sum = vcvtq_f32_s32(sums[t][h]);
          const float32x4_t step = vdupq_n_f32(d[t * blocks + b]);
          const float32x4_t more = vdupq_n_f32(side[(t * blocks + b) * groups + g]);
          if constexpr (min) {
            y[t][h] = vfmaq_f32(y[t][h], vmulq_f32(sum, step), scale);
            y[t][h] = vfmaq_f32(y[t][h], more, four_halves(factors + 16 * (groups + g) + 8 * h));
          } else {
            y[t][h] = vfmaq_f32(y[t][h], vfmaq_f32(more, sum, step), scale);
          }
        }
      }
    }
  }
  const std::int64_t row = panel * packed_rows;
  const std::int64_t count = std::min(packed_rows, job.w->rows - row);
  for (int t = 0; t < T; ++t) {
    const std::int64_t at = (token + t) * job.y_stride + row;
    float* out = job.y + at;
    F8 sums{y[t][0], y[t][1]};
    if (job.bias != nullptr) sums = sums + load_first(job.bias + row, count);
    if (job.residual != nullptr) sums = sums + load_first(job.residual + at, count);
    if (count == packed_rows) {
      store8(out, sums);
    } else {
      store_first(out, sums, count);
    }
  }
}

// The tokens that are left after tiles of T, in tiles half as wide, down to one.
template <class Products, int bits, int groups, bool min, int T>
KNAP_INLINE void tiles(const PackedJob& job, std::int64_t panel, std::int64_t token) {
  for (; token + T <= job.tokens; token += T) tile<Products, bits, groups, min, T>(job, panel, token);
  if constexpr (T > 1) tiles<Products, bits, groups, min, T / 2>(job, panel, token);
}

using PanelsFn = void (*)(const PackedJob& job, std::int64_t begin, std::int64_t end);

template <class Products, int most_tokens, int bits, int groups, bool min>
void panels_of(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  for (std::int64_t panel = begin; panel < end; ++panel) tiles<Products, bits, groups, min, most_tokens>(job, panel, 0);
}

template <class Products, int most_tokens, int bits>
PanelsFn panels_of_bits(const PackedKind& kind) {
  if (kind.groups == 1)
    return kind.min ? panels_of<Products, most_tokens, bits, 1, true>
                    : panels_of<Products, most_tokens, bits, 1, false>;
  return kind.min ? panels_of<Products, most_tokens, bits, 2, true> : panels_of<Products, most_tokens, bits, 2, false>;
}

template <class Products, int most_tokens>
void panels(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  const PackedKind& kind = job.w->kind;
  switch (kind.bits) {
    case 4:
      return panels_of_bits<Products, most_tokens, 4>(kind)(job, begin, end);
    case 5:
      return panels_of_bits<Products, most_tokens, 5>(kind)(job, begin, end);
    case 6:
      return panels_of_bits<Products, most_tokens, 6>(kind)(job, begin, end);
    default:
      return panels_of_bits<Products, most_tokens, 8>(kind)(job, begin, end);
  }
}

void round_row(const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out) {
  const int factor = kind.side_factor();
  for (std::int64_t b = 0; b < cols / packed_block; ++b, x += packed_block) {
    float32x4_t in[8];
    float32x4_t most = vdupq_n_f32(0);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      in[i] = vld1q_f32(x + 4 * i);
      most = vmaxq_f32(most, vabsq_f32(in[i]));  // keeps a NaN
    }
    const float largest = vmaxvq_f32(most);
    const bool finite = largest <= std::numeric_limits<float>::max();
    float inverse = finite && largest > 0 ? 127.0F / largest : 0.0F;
    // 127 / m overflows for a subnormal m; such a block counts as zeros.
    if (inverse > std::numeric_limits<float>::max()) inverse = 0;
    const float d = !finite ? std::numeric_limits<float>::quiet_NaN() : inverse > 0 ? largest / 127.0F : 0.0F;
    int32x4_t q[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const float32x4_t scaled = vmulq_n_f32(in[i], inverse);
      q[i] = finite ? vcvtnq_s32_f32(scaled) : vdupq_n_s32(0);  // to nearest, ties to even
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int32x4_t* from = q + 4 * half;
      const int16x8_t low = vcombine_s16(vmovn_s32(from[0]), vmovn_s32(from[1]));
      const int16x8_t high = vcombine_s16(vmovn_s32(from[2]), vmovn_s32(from[3]));
      vst1q_s8(out.q + b * packed_block + 16 * half, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    }
    out.d[b] = d;
    const int first = vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
    const int second = vaddvq_s32(vaddq_s32(vaddq_s32(q[4], q[5]), vaddq_s32(q[6], q[7])));
    if (kind.groups == 1) {
      out.side[b] = static_cast<float>(factor * (first + second)) * d;
    } else {
      out.side[2 * b] = static_cast<float>(factor * first) * d;
      out.side[2 * b + 1] = static_cast<float>(factor * second) * d;
    }
  }
}

// most_tokens: a power of two; their sums, results and codes should fit the 32 registers.
template <class Products, int most_tokens>
const PackedTable& packed_table_of() {
  static constexpr PackedTable table{.round = round_row, .panels = panels<Products, most_tokens>, .fetches = true};
  return table;
}

}  // namespace
}  // namespace knapsack
