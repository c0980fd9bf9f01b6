// kv_write: rows to F16 eight at a time, to Q8_0 as the definition does it.
#include <algorithm>

#include "kernels/kv_rows.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/kernels_avx2.h"

namespace knapsack::avx2 {
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
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(half + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < count; ++i) half[i] = float_to_half(x[i]);
}

}  // namespace

void kv_write(const OpCall& call) { write_kv_rows(call, write); }

}  // namespace knapsack::avx2
