// Q3_K: {32 bytes of third bits; 64 bytes of 2-bit codes; 12 bytes of 6-bit scales; f16 d}.
// value = d * (scale - 32) * (code - (third bit ? 0 : 4)). Two-bit codes lie as in Q2_K; third bit b of byte i belongs
// to element 32b + i. Scale j (of 16): low nibbles first in bytes 0-7 (then their high nibbles), bits 4-5 in bytes
// 8-11.
#include "tensor/formats/formats.h"

namespace knapsack::formats {

void decode_Q3_K(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 110, out += 256) {
    const std::byte* scales = data + 96;
    const float d = load_half(data + 108);
    for (int group = 0; group < 16; ++group) {
      const unsigned low = byte_at(scales, group % 8) >> (group / 8 * 4) & 15;
      const unsigned high = byte_at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
      const float scale = d * (code(low | high << 4) - 32.0F);
      const int at = group % 2 * 16;
      const std::byte* codes = data + 32 + group / 8 * 32 + at;
      const int shift = group % 8 / 2 * 2;
      const int bit = group / 2;
      for (int i = 0; i < 16; ++i) {
        const float offset = (byte_at(data, at + i) >> bit & 1) != 0 ? 0.0F : 4.0F;
        out[16 * group + i] = scale * (code(byte_at(codes, i) >> shift & 3) - offset);
      }
    }
  }
}

}  // namespace knapsack::formats
