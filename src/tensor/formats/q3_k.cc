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
    each_constant<8>([&](auto bit) {
      const std::byte* two = data + 32 + bit / 4 * 32;
      const Codes32 codes(
          [=](int i) { return (byte_at(two, i) >> (bit % 4 * 2) & 3) | (byte_at(data, i) >> bit() & 1) << 2; });
      for (const int half : {0, 1}) {
        const int group = 2 * bit + half;
        const unsigned low = byte_at(scales, group % 8) >> (group / 8 * 4) & 15;
        const unsigned high = byte_at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
        sink.zeroed(16, d * (code(low | high << 4) - 32.0F), 4, codes.from(16 * half));
      }
    });
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q3_K)

}  // namespace knapsack::formats
