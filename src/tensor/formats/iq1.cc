// Code words of eight elements in {-1, 0, 1}, moved by +-1/8.
// IQ1_S: {f16 d; 32 bytes: low 8 bits of 32 code words; 8 x u16, one a 32 elements: 4 x 3 upper bits, 3-bit scale, sign
// of the move}. IQ1_M: {32 bytes; 16 bytes: a nibble a code word, 3 upper bits and the move's sign; 4 x u16: 16 scales
// of 3 bits, one a 16 elements, and in their top nibbles the four nibbles of f16 d}. value = d * (2 scale + 1) * (level
// + move).
#include "tensor/formats/formats.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack::formats {
namespace {

constexpr float move = 0.125F;

void decode_word(unsigned index, float scale, float moved, float* out) {
  const unsigned word = iq1_grid[index];
  for (int i = 0; i < 8; ++i) out[i] = scale * (iq1_levels[word >> (2 * i) & 3] + moved);
}

}  // namespace

void decode_IQ1_S(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 50, out += 256) {
    const float d = load_half(data);
    for (int group = 0; group < 8; ++group) {
      const unsigned high = load_unaligned<std::uint16_t>(data + 34 + 2 * group);
      const float scale = d * code(2 * (high >> 12 & 7) + 1);
      const float moved = (high & 0x8000) != 0 ? -move : move;
      for (int w = 0; w < 4; ++w) {
        const unsigned index = byte_at(data, 2 + 4 * group + w) | (high >> (3 * w) & 7) << 8;
        decode_word(index, scale, moved, out + 32 * group + 8 * w);
      }
    }
  }
}

void decode_IQ1_M(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 56, out += 256) {
    unsigned scales[4];
    unsigned half = 0;
    for (int i = 0; i < 4; ++i) {
      scales[i] = load_unaligned<std::uint16_t>(data + 48 + 2 * i);
      half |= scales[i] >> 12 << (4 * i);
    }
    const float d = half_to_float(static_cast<std::uint16_t>(half));
    for (int w = 0; w < 32; ++w) {
      const int pair = w / 2;
      const float scale = d * code(2 * (scales[pair / 4] >> (3 * (pair % 4)) & 7) + 1);
      const unsigned nibble = byte_at(data, 32 + pair) >> (w % 2 * 4) & 15;
      decode_word(byte_at(data, w) | (nibble & 7) << 8, scale, (nibble & 8) != 0 ? -move : move, out + 8 * w);
    }
  }
}

}  // namespace knapsack::formats
