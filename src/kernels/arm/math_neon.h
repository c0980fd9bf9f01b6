// exp and sine/cosine of eight floats, within 1.5 ulp of their true values (of 1 for sine and cosine): the same series
// as x86/math_avx2.h, in the same steps. An element's result does not depend on its lane. Included by *_neon.cc files
// only.
#pragma once

#include "kernels/arm/neon.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): neon.h says why

KNAP_INLINE F8 nearest(F8 x) { return {vrndnq_f32(x.low), vrndnq_f32(x.high)}; }

KNAP_INLINE float32x4_t power_of_two(int32x4_t k) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(k, vdupq_n_s32(127)), 23));
}
// x * 2^n, in two steps, so that results reach down to subnormals and up to infinity.
KNAP_INLINE float32x4_t times_power(float32x4_t x, float32x4_t n) {
  const int32x4_t whole = vcvtnq_s32_f32(n);
  const int32x4_t half = vshrq_n_s32(whole, 1);
  return vmulq_f32(vmulq_f32(x, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}

// e^x = 2^n * e^r with |r| <= ln(2)/2; the Taylor series to r^7 leaves an error below 6e-9. NaN stays NaN, as NEON's
// minimum and maximum keep it.
KNAP_INLINE F8 exp8(F8 x) {
  const float32x4_t least = vdupq_n_f32(-104.0F);
  const float32x4_t most = vdupq_n_f32(89.0F);
  x = {vminq_f32(vmaxq_f32(x.low, least), most), vminq_f32(vmaxq_f32(x.high, least), most)};
  const F8 n = nearest(x * all8(0x1.715476p+0F));
  F8 r = fused_minus(n, all8(0x1.62e4p-1F), x);  // ln 2 in two parts; the first has 15 bits
  r = fused_minus(n, all8(0x1.7f7d1cp-20F), r);
  F8 p = all8(1.0F / 5040);
  for (const float factor : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    p = fused(p, r, all8(factor));
  return {times_power(p.low, n.low), times_power(p.high, n.high)};
}

// `a` where the bits of `mask` are set, else `b`.
KNAP_INLINE float32x4_t choose(uint32x4_t mask, float32x4_t a, float32x4_t b) { return vbslq_f32(mask, a, b); }

// v negated where bit 1 of the quadrant is set.
KNAP_INLINE float32x4_t with_sign(float32x4_t v, int32x4_t quadrant) {
  const int32x4_t sign = vshlq_n_s32(vandq_s32(quadrant, vdupq_n_s32(2)), 30);
  return vreinterpretq_f32_s32(veorq_s32(vreinterpretq_s32_f32(v), sign));
}

// x minus the nearest multiple of pi/2 (three parts, exact enough up to 2^20), then a series for sine and cosine in
// [-pi/4, pi/4]; the multiple's last two bits say which is which and what its sign is.
KNAP_INLINE void sin_cos8(F8 x, F8& sine, F8& cosine) {
  const F8 n = nearest(x * all8(0x1.45f306p-1F));
  F8 r = fused_minus(n, all8(0x1.921fb6p+0F), x);
  r = fused_minus(n, all8(-0x1.777a5cp-25F), r);
  r = fused_minus(n, all8(-0x1.ee59dap-50F), r);
  const F8 r2 = r * r;
  F8 s = all8(0x1.71de3ap-19F);                                                   // 1/9!
  for (const float factor : {-0x1.a01a02p-13F, 0x1.111112p-7F, -0x1.555556p-3F})  // -1/7!, 1/5!, -1/3!
    s = fused(s, r2, all8(factor));
  s = fused(s * r2, r, r);
  F8 c = all8(-0x1.27e4fcp-22F);                                                               // -1/10!
  for (const float factor : {0x1.a01a02p-16F, -0x1.6c16c2p-10F, 0x1.555556p-5F, -0.5F, 1.0F})  // 1/8!, -1/6!, 1/4!
    c = fused(c, r2, all8(factor));
  const auto finish = [](float32x4_t sine4, float32x4_t cosine4, float32x4_t multiple, float32x4_t& s4,
                         float32x4_t& c4) {
    const int32x4_t quadrant = vcvtnq_s32_f32(multiple);
    const uint32x4_t swap = vtstq_s32(quadrant, vdupq_n_s32(1));
    s4 = with_sign(choose(swap, cosine4, sine4), quadrant);
    c4 = with_sign(choose(swap, sine4, cosine4), vaddq_s32(quadrant, vdupq_n_s32(1)));
  };
  finish(s.low, c.low, n.low, sine.low, cosine.low);
  finish(s.high, c.high, n.high, sine.high, cosine.high);
}

}  // namespace
}  // namespace knapsack
