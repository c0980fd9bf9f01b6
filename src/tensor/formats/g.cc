// What GPTQ and AWQ checkpoints hold, exactly. value = scale * (code - zero).
// G4: {f16 scale; u8 zero; 16 bytes}, nibbles as in Q4_0. G8: {f16 scale; u16 zero; 32 x u8}: zero has 16 bits because
// GPTQ's first format stores zero - 1, so that 255 there means 256.
#include "tensor/formats/formats.h"

namespace knapsack::formats {

void decode_G4(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 19, out += 32) {
    const float scale = load_half(data);
    const float zero = code(byte_at(data, 2));
    for (int j = 0; j < 16; ++j) {
      const unsigned both = byte_at(data, 3 + j);
      out[j] = scale * (code(both & 15) - zero);
      out[j + 16] = scale * (code(both >> 4) - zero);
    }
  }
}

void decode_G8(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 36, out += 32) {
    const float scale = load_half(data);
    const float zero = code(load_unaligned<std::uint16_t>(data + 2));
    for (int j = 0; j < 32; ++j) out[j] = scale * (code(byte_at(data, 4 + j)) - zero);
  }
}

}  // namespace knapsack::formats
