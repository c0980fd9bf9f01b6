// F8_E4M3: one sign, four exponent (bias 7), three mantissa bits; no infinity, 0x7f and 0xff are NaN ("e4m3fn").
// F8_B32: {f32 scale; 32 x E4M3}, value = scale * e4m3(code).
#include <bit>

#include "tensor/formats/formats.h"

namespace knapsack::formats {
namespace {

// Exponent and mantissa moved to float's places are a value 2^120 too small, subnormals included.
float e4m3(unsigned bits) {
  if ((bits & 0x7f) == 0x7f) return std::bit_cast<float>(0x7fc00000U | (bits & 0x80) << 24);
  return std::bit_cast<float>((bits & 0x80) << 24 | (bits & 0x7f) << 20) * 0x1p120F;
}

}  // namespace

void decode_F8_E4M3(const std::byte* data, float* out, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) out[i] = e4m3(byte_at(data, i));
}

void decode_F8_B32(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 36, out += 32) {
    const auto scale = load_unaligned<float>(data);
    for (int j = 0; j < 32; ++j) out[j] = scale * e4m3(byte_at(data, 4 + j));
  }
}

}  // namespace knapsack::formats
