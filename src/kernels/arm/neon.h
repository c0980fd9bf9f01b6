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
