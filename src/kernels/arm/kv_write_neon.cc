// kv_write: rows to F16 eight at a time, to Q8_0 as the definition does it.
#include <algorithm>

#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/neon.h"
#include "kernels/kv_rows.h"

namespace knapsack::neon {
namespace {

void write(const float* x, std::int64_t count, DType dtype, std::byte* to) {
  if (dtype == DType::F32) {
    std::copy_n(x, count, reinterpret_cast<float*>(to));
    return;
  }
  if (dtype == DType::Q8_0) {
    const FormatInfo& f = format(dtype);
    f.encode(x, to, count / f.block);
    return;
  }
  auto* half = reinterpret_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const float16x8_t eight =
        vcombine_f16(vcvt_f16_f32(vld1q_f32(x + i)), vcvt_f16_f32(vld1q_f32(x + i + 4)));  // to nearest, ties to even
    vst1q_u16(half + i, vreinterpretq_u16_f16(eight));
  }
  for (; i < count; ++i) half[i] = float_to_half(x[i]);
}

}  // namespace

void kv_write(const OpCall& call) { write_kv_rows(call, write); }

}  // namespace knapsack::neon
