// Q4_K: {f16 d; f16 dmin; 12 bytes of 6-bit scales and mins; 128 bytes of 4-bit codes}.
// Q5_K: {f16 d; f16 dmin; 12 bytes of 6-bit scales and mins; 32 bytes of fifth bits; 128 bytes of 4-bit codes}.
// value = d * scale * code - dmin * min, one scale and min a 32 elements. Each 32 bytes of codes hold 64 elements, low
// nibbles first; fifth bit g of byte i belongs to element 32g + i.
#include "tensor/formats/formats.h"

namespace knapsack::formats {
namespace {

struct ScaleMin {
  float scale, min;
};

// Groups 0-3 lie whole in bytes 0-3 (scales) and 4-7 (mins); of groups 4-7 the low nibbles share bytes 8-11 and the
// upper two bits top bytes 0-7.
ScaleMin scale_min(const std::byte* packed, int group) {
  if (group < 4) return {code(byte_at(packed, group) & 63), code(byte_at(packed, group + 4) & 63)};
  const unsigned both = byte_at(packed, group + 4);
  return {code((both & 15) | byte_at(packed, group - 4) >> 6 << 4), code(both >> 4 | byte_at(packed, group) >> 6 << 4)};
}

// Both formats' blocks of `size` bytes: code_at(block, group, i) is element i of a group.
template <std::int64_t size, class CodeAt>
void decode(const std::byte* data, float* out, std::int64_t blocks, CodeAt code_at) {
  for (; blocks > 0; --blocks, data += size, out += 256) {
    const float d = load_half(data);
    const float dmin = load_half(data + 2);
    for (int group = 0; group < 8; ++group) {
      const ScaleMin s = scale_min(data + 4, group);
      const float scale = d * s.scale;
      const float min = dmin * s.min;
      for (int i = 0; i < 32; ++i) out[32 * group + i] = scale * code(code_at(data, group, i)) - min;
    }
  }
}

unsigned nibble(const std::byte* codes, int group, int i) {
  return byte_at(codes, group / 2 * 32 + i) >> group % 2 * 4 & 15;
}

}  // namespace

void decode_Q4_K(const std::byte* data, float* out, std::int64_t blocks) {
  decode<144>(data, out, blocks, [](const std::byte* block, int group, int i) { return nibble(block + 16, group, i); });
}

void decode_Q5_K(const std::byte* data, float* out, std::int64_t blocks) {
  decode<176>(data, out, blocks, [](const std::byte* block, int group, int i) {
    const unsigned fifth = byte_at(block + 16, i) >> group & 1;
    return nibble(block + 48, group, i) | fifth << 4;
  });
}

}  // namespace knapsack::formats
