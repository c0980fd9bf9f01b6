// Four-bit codes into a table of 16 uneven levels.
// IQ4_NL: {f16 scale; 16 bytes}, nibbles as in Q4_0.
// IQ4_XS: {f16 d; u16 upper two scale bits of 8 groups; 4 bytes of lower scale nibbles; 128 bytes}, value = d * (scale
// - 32) * level; each group of 32 elements is laid out as an IQ4_NL block.
#include "tensor/formats/formats.h"
#include "tensor/formats/iq_grids.h"

namespace knapsack::formats {
namespace {

void decode_group(const std::byte* codes, float scale, float* out) {
  for (int j = 0; j < 16; ++j) {
    const unsigned both = byte_at(codes, j);
    out[j] = scale * static_cast<float>(iq4_levels[both & 15]);
    out[j + 16] = scale * static_cast<float>(iq4_levels[both >> 4]);
  }
}

}  // namespace

void decode_IQ4_NL(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 18, out += 32) decode_group(data + 2, load_half(data), out);
}

void decode_IQ4_XS(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 136, out += 256) {
    const float d = load_half(data);
    const unsigned high = load_unaligned<std::uint16_t>(data + 2);
    for (int group = 0; group < 8; ++group) {
      const unsigned low = byte_at(data, 4 + group / 2) >> (group % 2 * 4) & 15;
      const float scale = d * (code(low | (high >> (2 * group) & 3) << 4) - 32.0F);
      decode_group(data + 8 + 16 * group, scale, out + 32 * group);
    }
  }
}

}  // namespace knapsack::formats
