// Four-bit codes into a table of 16 uneven levels.
// IQ4_NL: {f16 scale; 16 bytes}, nibbles as in Q4_0.
// IQ4_XS: {f16 d; u16 upper two scale bits of 8 groups; 4 bytes of lower scale nibbles; 128 bytes}, value = d * (scale
// - 32) * level; each group of 32 elements is laid out as an IQ4_NL block.
#include "tensor/formats/formats.h"
#include "tensor/formats/iq_grids.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

auto levels_of(const std::byte* p) {
  return two_halves([=](int i) { return iq4_levels[byte_at(p, i) & 15]; },
                    [=](int i) { return iq4_levels[byte_at(p, i) >> 4]; });
}

template <class Sink>
void walk_IQ4_NL(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 18) sink.zeroed(32, load_half(data), 0, levels_of(data + 2));
}

template <class Sink>
void walk_IQ4_XS(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 136) {
    const float d = load_half(data);
    const unsigned high = load_unaligned<std::uint16_t>(data + 2);
    for (int group = 0; group < 8; ++group) {
      const unsigned low = byte_at(data, 4 + group / 2) >> (group % 2 * 4) & 15;
      const std::byte* codes = data + 8 + 16 * group;
      sink.zeroed(32, d * (code(low | (high >> (2 * group) & 3) << 4) - 32.0F), 0, levels_of(codes));
    }
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(IQ4_NL)
KNAP_INTEGER_FORMAT(IQ4_XS)

}  // namespace knapsack::formats
