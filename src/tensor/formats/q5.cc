// Q5_0: {f16 scale; u32 fifth bits; 16 bytes}, value = scale * (code - 16).
// Q5_1: {f16 scale; f16 min; u32 fifth bits; 16 bytes}, value = scale * code + min. Nibbles as in Q4_0.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

auto codes_of(const std::byte* p, std::uint32_t high) {
  return two_halves([=](int i) { return (byte_at(p, i) & 15) | (high >> i & 1) << 4; },
                    [=](int i) { return byte_at(p, i) >> 4 | (high >> (16 + i) & 1) << 4; });
}

template <class Sink>
void walk_Q5_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 22) {
    const auto high = load_unaligned<std::uint32_t>(data + 2);
    sink.zeroed(32, load_half(data), 16, codes_of(data + 6, high));
  }
}

template <class Sink>
void walk_Q5_1(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 24) {
    const auto high = load_unaligned<std::uint32_t>(data + 4);
    sink.affine(32, load_half(data), load_half(data + 2), codes_of(data + 8, high));
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q5_0)
KNAP_INTEGER_FORMAT(Q5_1)

}  // namespace knapsack::formats
