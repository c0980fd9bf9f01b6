// Q5_0: {f16 scale; u32 fifth bits; 16 bytes}, value = scale * (code - 16).
// Q5_1: {f16 scale; f16 min; u32 fifth bits; 16 bytes}, value = scale * code + min. Nibbles as in Q4_0.
#include "tensor/formats/formats.h"

namespace knapsack::formats {

void decode_Q5_0(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 22, out += 32) {
    const float scale = load_half(data);
    const auto high = load_unaligned<std::uint32_t>(data + 2);
    for (int j = 0; j < 16; ++j) {
      const unsigned both = byte_at(data, 6 + j);
      out[j] = scale * (code((both & 15) | (high >> j & 1) << 4) - 16.0F);
      out[j + 16] = scale * (code(both >> 4 | (high >> (j + 16) & 1) << 4) - 16.0F);
    }
  }
}

void decode_Q5_1(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 24, out += 32) {
    const float scale = load_half(data);
    const float min = load_half(data + 2);
    const auto high = load_unaligned<std::uint32_t>(data + 4);
    for (int j = 0; j < 16; ++j) {
      const unsigned both = byte_at(data, 8 + j);
      out[j] = scale * code((both & 15) | (high >> j & 1) << 4) + min;
      out[j + 16] = scale * code(both >> 4 | (high >> (j + 16) & 1) << 4) + min;
    }
  }
}

}  // namespace knapsack::formats
