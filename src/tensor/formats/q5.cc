// Q5_0: {f16 scale; u32 fifth bits; 16 bytes}, value = scale * (code - 16).
// Q5_1: {f16 scale; f16 min; u32 fifth bits; 16 bytes}, value = scale * code + min. Nibbles as in Q4_0.
#include <array>
#include <cstring>

#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

// The bits of a byte as the fifth bits of eight bytes: a table, so that the codes are made by vectors.
constexpr auto fifth_bits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> bits{};
  for (std::size_t byte = 0; byte < 256; ++byte)
    for (std::size_t i = 0; i < 8; ++i) bits[byte][i] = static_cast<std::uint8_t>((byte >> i & 1) << 4);
  return bits;
}();

// p: the nibbles, which come after the 32 fifth bits.
Codes32 codes_of(const std::byte* p) {
  std::array<std::uint8_t, 32> fifth;
  for (std::size_t i = 0; i < 4; ++i)
    std::memcpy(fifth.data() + 8 * i,
                fifth_bits[std::to_integer<std::size_t>(p[static_cast<std::ptrdiff_t>(i) - 4])].data(), 8);
  std::array<std::uint8_t, 32> low;
  std::memcpy(low.data(), p, 16);
  for (std::size_t i = 0; i < 16; ++i) low[16 + i] = low[i] >> 4;
  return Codes32([&](int i) { return (low[i] & 15) | fifth[i]; });
}

template <class Sink>
void walk_Q5_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 22) {
    const Codes32 codes = codes_of(data + 6);
    sink.zeroed(32, load_half(data), 16, codes.from(0));
  }
}

template <class Sink>
void walk_Q5_1(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 24) {
    const Codes32 codes = codes_of(data + 8);
    sink.affine(32, load_half(data), load_half(data + 2), codes.from(0));
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q5_0)
KNAP_INTEGER_FORMAT(Q5_1)

}  // namespace knapsack::formats
