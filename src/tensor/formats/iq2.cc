// Code words of eight magnitudes with signs. value = d * (1/2 + scale) / 4 * level * sign.
// IQ2_XXS: {f16 d; 8 x (u32: 4 word indices; u32: 4 x 7 signs, 4-bit scale)}, a group of 32 elements each.
// IQ2_XS: {f16 d; 32 x u16: 9-bit index, 7 signs; 8 bytes of 4-bit scales, one a 16 elements}.
// IQ2_S: {f16 d; 32 bytes: low index bits; 32 bytes: signs; 8 bytes: 4 x 2 upper index bits; 8 bytes of scales}.
#include "tensor/formats/formats.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack::formats {
namespace {

void decode_word(unsigned word, unsigned signs, float scale, float* out) {
  for (int i = 0; i < 8; ++i) {
    const float value = scale * iq2_levels[word >> (2 * i) & 3];
    out[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

float scale_of(float d, unsigned scale) { return d * (0.5F + code(scale)) * 0.25F; }

}  // namespace

void decode_IQ2_XXS(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 66, out += 256) {
    const float d = load_half(data);
    for (int group = 0; group < 8; ++group) {
      const std::byte* at = data + 2 + 8 * group;
      const auto packed = load_unaligned<std::uint32_t>(at + 4);
      const float scale = scale_of(d, packed >> 28);
      for (int w = 0; w < 4; ++w)
        decode_word(iq2_xxs_grid[byte_at(at, w)], signs_of(packed >> (7 * w) & 127), scale, out + 32 * group + 8 * w);
    }
  }
}

void decode_IQ2_XS(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 74, out += 256) {
    const float d = load_half(data);
    for (int w = 0; w < 32; ++w) {
      const unsigned packed = load_unaligned<std::uint16_t>(data + 2 + 2 * w);
      const float scale = scale_of(d, byte_at(data, 66 + w / 4) >> (w / 2 % 2 * 4) & 15);
      decode_word(iq2_xs_grid[packed & 511], signs_of(packed >> 9), scale, out + 8 * w);
    }
  }
}

void decode_IQ2_S(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 82, out += 256) {
    const float d = load_half(data);
    for (int w = 0; w < 32; ++w) {
      const unsigned index = byte_at(data, 2 + w) | (byte_at(data, 66 + w / 4) >> (w % 4 * 2) & 3) << 8;
      const float scale = scale_of(d, byte_at(data, 74 + w / 4) >> (w / 2 % 2 * 4) & 15);
      decode_word(iq2_s_grid[index], byte_at(data, 34 + w), scale, out + 8 * w);
    }
  }
}

}  // namespace knapsack::formats
