// MXFP4 as ggml stores it: {u8 exponent e; 16 bytes}, nibbles as in Q4_0, value = 2^(e-128) * (2 * e2m1(code)).
#include <array>
#include <bit>

#include "tensor/formats/formats.h"

namespace knapsack::formats {
namespace {

constexpr std::array<float, 16> doubled_e2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e-128), which is subnormal for e < 2.
float half_power(unsigned e) { return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23); }

}  // namespace

void decode_MXFP4(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 17, out += 32) {
    const float scale = half_power(byte_at(data, 0));
    for (int j = 0; j < 16; ++j) {
      const unsigned both = byte_at(data, 1 + j);
      out[j] = scale * doubled_e2m1[both & 15];
      out[j + 16] = scale * doubled_e2m1[both >> 4];
    }
  }
}

}  // namespace knapsack::formats
