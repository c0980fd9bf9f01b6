// Small NEON pieces shared by the kernels here: eight floats as two registers, so that sums run in the eight lanes of
// matmul.h. Included by .cc files of this folder only, some of which are compiled for more than plain NEON; everything
// is in an unnamed namespace so that no other file's copy of a function is replaced by one of these.
#pragma once

#include <arm_neon.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/half.h"

#define KNAP_INLINE inline __attribute__((always_inline))

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

struct F8 {
  float32x4_t low, high;
};

KNAP_INLINE F8 all8(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
KNAP_INLINE F8 load8(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
KNAP_INLINE void store8(float* p, F8 v) {
  vst1q_f32(p, v.low);
  vst1q_f32(p + 4, v.high);
}
// The first `count` (0 to 8) of eight; zeros after them.
KNAP_INLINE F8 load_first(const float* p, std::int64_t count) {
  std::array<float, 8> some{};
  std::memcpy(some.data(), p, static_cast<std::size_t>(count) * sizeof(float));
  return load8(some.data());
}
KNAP_INLINE void store_first(float* p, F8 v, std::int64_t count) {
  std::array<float, 8> some{};
  store8(some.data(), v);
  std::memcpy(p, some.data(), static_cast<std::size_t>(count) * sizeof(float));
}

KNAP_INLINE F8 operator+(F8 a, F8 b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
KNAP_INLINE F8 operator-(F8 a, F8 b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
KNAP_INLINE F8 operator*(F8 a, F8 b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
KNAP_INLINE F8 operator/(F8 a, F8 b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
KNAP_INLINE F8 operator-(F8 a) { return {vnegq_f32(a.low), vnegq_f32(a.high)}; }
KNAP_INLINE F8 max8(F8 a, F8 b) { return {vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)}; }
// a * b + c and c - a * b, rounded once.
KNAP_INLINE F8 fused(F8 a, F8 b, F8 c) { return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
KNAP_INLINE F8 fused_minus(F8 a, F8 b, F8 c) {
  return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
}

// NEON's minimum and maximum keep a NaN.
KNAP_INLINE F8 clamp8(F8 x, float least, float most) {
  const auto clamp = [&](float32x4_t v) { return vminq_f32(vmaxq_f32(v, vdupq_n_f32(least)), vdupq_n_f32(most)); };
  return {clamp(x.low), clamp(x.high)};
}
KNAP_INLINE F8 nearest8(F8 x) { return {vrndnq_f32(x.low), vrndnq_f32(x.high)}; }
// x * 2^n for whole n, in two steps, so that results reach down to subnormals and up to infinity.
KNAP_INLINE F8 times_power(F8 x, F8 n) {
  const auto power = [](int32x4_t k) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(k, vdupq_n_s32(127)), 23)); };
  const auto times = [&](float32x4_t v, float32x4_t by) {
    const int32x4_t whole = vcvtnq_s32_f32(by);
    const int32x4_t half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(v, power(half)), power(vsubq_s32(whole, half)));
  };
  return {times(x.low, n.low), times(x.high, n.high)};
}
// Sine and cosine of r + n * pi/2 from those of r, s and c.
KNAP_INLINE void turn_quadrants(F8 n, F8 s, F8 c, F8& sine, F8& cosine) {
  const auto with_sign = [](float32x4_t v, int32x4_t quadrant) {
    const int32x4_t sign = vshlq_n_s32(vandq_s32(quadrant, vdupq_n_s32(2)), 30);
    return vreinterpretq_f32_s32(veorq_s32(vreinterpretq_s32_f32(v), sign));
  };
  const auto turn = [&](float32x4_t multiple, float32x4_t s4, float32x4_t c4, float32x4_t& sine4,
                        float32x4_t& cosine4) {
    const int32x4_t quadrant = vcvtnq_s32_f32(multiple);
    const uint32x4_t odd = vtstq_s32(quadrant, vdupq_n_s32(1));
    sine4 = with_sign(vbslq_f32(odd, c4, s4), quadrant);
    cosine4 = with_sign(vbslq_f32(odd, s4, c4), vaddq_s32(quadrant, vdupq_n_s32(1)));
  };
  turn(n.low, s.low, c.low, sine.low, cosine.low);
  turn(n.high, s.high, c.high, sine.high, cosine.high);
}
// Eight pairs (a, b) that lie side by side become (a * c - b * s, b * c + a * s).
KNAP_INLINE void rotate_pairs(const float* from, float* to, F8 c, F8 s) {
  const float32x4x2_t low = vld2q_f32(from);  // firsts and seconds apart
  const float32x4x2_t high = vld2q_f32(from + 8);
  const F8 a{low.val[0], high.val[0]};
  const F8 b{low.val[1], high.val[1]};
  const F8 first = a * c - b * s;
  const F8 second = b * c + a * s;
  vst2q_f32(to, {{first.low, second.low}});
  vst2q_f32(to + 8, {{first.high, second.high}});
}
// Squares, summed in double in eight lanes; lanes i and i + 4 come together first, then i and i + 2.
class Squares {
 public:
  KNAP_INLINE void add(F8 x) {
    pair_[0] = add_squares(pair_[0], vget_low_f32(x.low));
    pair_[1] = add_squares(pair_[1], vget_high_f32(x.low));
    pair_[2] = add_squares(pair_[2], vget_low_f32(x.high));
    pair_[3] = add_squares(pair_[3], vget_high_f32(x.high));
  }
  [[nodiscard]] KNAP_INLINE double sum() const {
    return vaddvq_f64(vaddq_f64(vaddq_f64(pair_[0], pair_[2]), vaddq_f64(pair_[1], pair_[3])));
  }

 private:
  static KNAP_INLINE float64x2_t add_squares(float64x2_t sum, float32x2_t x) {
    const float64x2_t wide = vcvt_f64_f32(x);
    return vfmaq_f64(sum, wide, wide);
  }
  std::array<float64x2_t, 4> pair_ = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};
};

// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)): the one order in which lanes are summed (matmul.h).
KNAP_INLINE float lane_sum(F8 v) {
  const float32x4_t four = vaddq_f32(v.low, v.high);
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}
// The lane sums of four, in the same order each.
KNAP_INLINE float32x4_t lane_sums(const F8& a, const F8& b, const F8& c, const F8& d) {
  const auto two = [](const F8& v) {
    const float32x4_t four = vaddq_f32(v.low, v.high);
    return vadd_f32(vget_low_f32(four), vget_high_f32(four));
  };
  return vpaddq_f32(vcombine_f32(two(a), two(b)), vcombine_f32(two(c), two(d)));
}

KNAP_INLINE float lane_max(F8 v) { return vmaxvq_f32(vmaxq_f32(v.low, v.high)); }

KNAP_INLINE F8 signed_bytes(const std::byte* p) {
  const int16x8_t codes = vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(p)));
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(codes))), vcvtq_f32_s32(vmovl_high_s16(codes))};
}
// The f16 at p in every lane.
KNAP_INLINE F8 all_half(const std::byte* p) {
  const float32x4_t four = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(load_unaligned<std::uint16_t>(p))));
  return {four, four};
}

KNAP_INLINE F8 load_halves(const std::byte* p) {
  const uint16x8_t halves = vld1q_u16(reinterpret_cast<const std::uint16_t*>(p));
  return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(halves))),
          vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(halves)))};
}

// Rows of floats, halves or bfloats: how eight of their columns are loaded.
struct LoadF32 {
  static constexpr int bytes = 4;
  static KNAP_INLINE F8 eight(const std::byte* p) { return load8(reinterpret_cast<const float*>(p)); }
};
struct LoadF16 {
  static constexpr int bytes = 2;
  static KNAP_INLINE F8 eight(const std::byte* p) { return load_halves(p); }
};
struct LoadBF16 {
  static constexpr int bytes = 2;
  static KNAP_INLINE F8 eight(const std::byte* p) {
    const uint16x8_t upper = vld1q_u16(reinterpret_cast<const std::uint16_t*>(p));
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(upper), 16)),
            vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(upper), 16))};
  }
};

}  // namespace
}  // namespace knapsack
