// Q3_K: {32 bytes of third bits; 64 bytes of 2-bit codes; 12 bytes of 6-bit scales; f16 d}.
// value = d * (scale - 32) * (code + (third bit ? 4 : 0) - 4). Two-bit codes lie as in Q2_K; third bit b of byte i
// belongs to element 32b + i. Scale j (of 16): low nibbles first in bytes 0-7 (then their high nibbles), bits 4-5 in
// bytes 8-11.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

template <class Sink>
void walk_Q3_K(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 110) {
    const std::byte* scales = data + 96;
    const float d = load_half(data + 108);
    for (int group = 0; group < 16; ++group) {
      const unsigned low = byte_at(scales, group % 8) >> (group / 8 * 4) & 15;
      const unsigned high = byte_at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
      const int at = group % 2 * 16;
      const std::byte* codes = data + 32 + group / 8 * 32 + at;
      const int shift = group % 8 / 2 * 2;
      const int bit = group / 2;
      sink.zeroed(16, d * (code(low | high << 4) - 32.0F), 4,
                  [&](int i) { return (byte_at(codes, i) >> shift & 3) | (byte_at(data, at + i) >> bit & 1) << 2; });
    }
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q3_K)

}  // namespace knapsack::formats
