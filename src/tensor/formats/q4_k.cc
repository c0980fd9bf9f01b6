// Q4_K: {f16 d; f16 dmin; 12 bytes of 6-bit scales and mins; 128 bytes of 4-bit codes}.
// Q5_K: {f16 d; f16 dmin; 12 bytes of 6-bit scales and mins; 32 bytes of fifth bits; 128 bytes of 4-bit codes}.
// value = d * scale * code - dmin * min, one scale and min a 32 elements. Each 32 bytes of codes hold 64 elements, low
// nibbles first; fifth bit g of byte i belongs to element 32g + i.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

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

template <class Sink>
void walk_Q4_K(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 144) {
    const float d = load_half(data);
    const float dmin = load_half(data + 2);
    each_constant<8>([&](auto group) {
      const ScaleMin s = scale_min(data + 4, group);
      const std::byte* codes = data + 16 + group / 2 * 32;
      constexpr int shift = group % 2 * 4;
      sink.affine(32, d * s.scale, -(dmin * s.min), [&](int i) { return byte_at(codes, i) >> shift & 15; });
    });
  }
}

template <class Sink>
void walk_Q5_K(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 176) {
    const float d = load_half(data);
    const float dmin = load_half(data + 2);
    each_constant<8>([&](auto group) {
      const ScaleMin s = scale_min(data + 4, group);
      const std::byte* fifth = data + 16;
      const std::byte* codes = data + 48 + group / 2 * 32;
      constexpr int shift = group % 2 * 4;
      sink.affine(32, d * s.scale, -(dmin * s.min),
                  [&](int i) { return (byte_at(codes, i) >> shift & 15) | (byte_at(fifth, i) >> group() & 1) << 4; });
    });
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q4_K)
KNAP_INTEGER_FORMAT(Q5_K)

}  // namespace knapsack::formats
