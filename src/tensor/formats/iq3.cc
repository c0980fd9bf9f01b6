// Code words of four magnitudes with signs.
// IQ3_XXS: {f16 d; 64 bytes: word indices; 8 x u32, one a 32 elements: 4 x 7 signs, 4-bit scale}, value = d * (1/2 +
// scale) / 2 * level * sign. IQ3_S: {f16 d; 64 bytes: low index bits; 8 bytes: ninth bits; 32 bytes: signs; 4 bytes of
// 4-bit scales, one a 32 elements}, value = d * (2 scale + 1) * level * sign.
#include "tensor/formats/formats.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack::formats {
namespace {

void decode_word(unsigned word, const std::array<float, 8>& levels, unsigned signs, float scale, float* out) {
  for (int i = 0; i < 4; ++i) {
    const float value = scale * levels[word >> (4 * i) & 7];
    out[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

}  // namespace

void decode_IQ3_XXS(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 98, out += 256) {
    const float d = load_half(data);
    for (int group = 0; group < 8; ++group) {
      const auto packed = load_unaligned<std::uint32_t>(data + 66 + 4 * group);
      const float scale = d * (0.5F + code(packed >> 28)) * 0.5F;
      for (int w = 0; w < 8; ++w) {
        const unsigned signs = signs_of(packed >> (w / 2 * 7) & 127) >> (w % 2 * 4);
        decode_word(iq3_xxs_grid[byte_at(data, 2 + 8 * group + w)], iq3_xxs_levels, signs, scale,
                    out + 32 * group + 4 * w);
      }
    }
  }
}

void decode_IQ3_S(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 110, out += 256) {
    const float d = load_half(data);
    for (int w = 0; w < 64; ++w) {
      const unsigned index = byte_at(data, 2 + w) | (byte_at(data, 66 + w / 8) >> (w % 8) & 1) << 8;
      const unsigned signs = byte_at(data, 74 + w / 2) >> (w % 2 * 4);
      const float scale = d * code(2 * (byte_at(data, 106 + w / 16) >> (w / 8 % 2 * 4) & 15) + 1);
      decode_word(iq3_s_grid[index], iq3_s_levels, signs, scale, out + 4 * w);
    }
  }
}

}  // namespace knapsack::formats
