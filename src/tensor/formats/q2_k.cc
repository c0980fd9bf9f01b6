// Q2_K: {16 bytes: 4-bit scale | 4-bit min << 4, one a 16 elements; 64 bytes of 2-bit codes; f16 d; f16 dmin}.
// value = d * scale * code - dmin * min. Each 32 bytes hold 128 elements: bits 2j of byte i are element 32j + i.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

template <class Sink>
void walk_Q2_K(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 84) {
    const float d = load_half(data + 80);
    const float dmin = load_half(data + 82);
    each_constant<16>([&](auto group) {
      const unsigned packed = byte_at(data, group);
      const std::byte* codes = data + 16 + group / 8 * 32 + group % 2 * 16;
      constexpr int shift = group % 8 / 2 * 2;
      sink.affine(16, d * code(packed & 15), -(dmin * code(packed >> 4)),
                  [&](int i) { return byte_at(codes, i) >> shift & 3; });
    });
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q2_K)

}  // namespace knapsack::formats
