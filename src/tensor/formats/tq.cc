// Ternary: value = d * (digit - 1).
// TQ1_0: {48 bytes of five base-3 digits; 4 bytes of four; f16 d}. A byte is ceil(number * 256 / 243), so digit n is
// the integer part of 3 * frac(byte * 3^n / 256). Digit n of the first 32 bytes are elements 32n.., of the next 16
// bytes 160 + 16n.., of the last four 240 + 4n... TQ2_0: {64 bytes of 2-bit digits; f16 d}; bits 2j of byte i of each
// 32 are element 32j + i of 128.
#include <array>

#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

constexpr std::array<unsigned, 5> powers = {1, 3, 9, 27, 81};

unsigned digit(const std::byte* data, int i, int n) {
  const unsigned fraction = byte_at(data, i) * powers[static_cast<std::size_t>(n)] & 255;
  return fraction * 3 >> 8;
}

template <class Sink>
void walk_TQ1_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 54) {
    sink.zeroed(256, load_half(data + 52), 1, [&](int i) {
      if (i < 160) return digit(data, i % 32, i / 32);
      if (i < 240) return digit(data + 32, (i - 160) % 16, (i - 160) / 16);
      return digit(data + 48, (i - 240) % 4, (i - 240) / 4);
    });
  }
}

template <class Sink>
void walk_TQ2_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 66) {
    sink.zeroed(256, load_half(data + 64), 1,
                [&](int i) { return byte_at(data, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3; });
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(TQ1_0)
KNAP_INTEGER_FORMAT(TQ2_0)

}  // namespace knapsack::formats
