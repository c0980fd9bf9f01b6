// exp and sine/cosine of eight floats, within 1.5 ulp of their true values (of 1 for sine and cosine). An element's
// result does not depend on its lane and has the same bits on every instruction set. Written over F8, which the
// includer brings, as small_ops.h says; everything is in an unnamed namespace, since each includer may be compiled for
// another set.
#pragma once

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): said above

// e^x = 2^n * e^r with |r| <= ln(2)/2; the Taylor series to r^7 leaves an error below 6e-9. NaN stays NaN.
KNAP_INLINE F8 exp8(F8 x) {
  x = clamp8(x, -104.0F, 89.0F);
  const F8 n = nearest8(x * all8(0x1.715476p+0F));
  F8 r = fused_minus(n, all8(0x1.62e4p-1F), x);  // ln 2 in two parts; the first has 15 bits
  r = fused_minus(n, all8(0x1.7f7d1cp-20F), r);
  F8 p = all8(1.0F / 5040);
  p = fused(p, r, all8(1.0F / 720));
  p = fused(p, r, all8(1.0F / 120));
  p = fused(p, r, all8(1.0F / 24));
  p = fused(p, r, all8(1.0F / 6));
  p = fused(p, r, all8(0.5F));
  p = fused(p, r, all8(1.0F));
  p = fused(p, r, all8(1.0F));
  return times_power(p, n);
}

// x minus the nearest multiple of pi/2 (three parts, exact enough up to 2^20), then a series for sine and cosine in
// [-pi/4, pi/4]; the multiple's last two bits say which is which and what its sign is.
KNAP_INLINE void sin_cos8(F8 x, F8& sine, F8& cosine) {
  const F8 n = nearest8(x * all8(0x1.45f306p-1F));
  F8 r = fused_minus(n, all8(0x1.921fb6p+0F), x);
  r = fused_minus(n, all8(-0x1.777a5cp-25F), r);
  r = fused_minus(n, all8(-0x1.ee59dap-50F), r);
  const F8 r2 = r * r;
  F8 s = all8(0x1.71de3ap-19F);              // 1/9!
  s = fused(s, r2, all8(-0x1.a01a02p-13F));  // -1/7!
  s = fused(s, r2, all8(0x1.111112p-7F));    // 1/5!
  s = fused(s, r2, all8(-0x1.555556p-3F));   // -1/3!
  s = fused(s * r2, r, r);
  F8 c = all8(-0x1.27e4fcp-22F);             // -1/10!
  c = fused(c, r2, all8(0x1.a01a02p-16F));   // 1/8!
  c = fused(c, r2, all8(-0x1.6c16c2p-10F));  // -1/6!
  c = fused(c, r2, all8(0x1.555556p-5F));    // 1/4!
  c = fused(c, r2, all8(-0.5F));
  c = fused(c, r2, all8(1.0F));
  turn_quadrants(n, s, c, sine, cosine);
}

}  // namespace
}  // namespace knapsack
