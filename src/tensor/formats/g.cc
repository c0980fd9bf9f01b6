// What GPTQ and AWQ checkpoints hold, exactly. value = scale * (code - zero).
// G4: {f16 scale; u8 zero; 16 bytes}, nibbles as in Q4_0. G8: {f16 scale; u16 zero; 32 x u8}: zero has 16 bits because
// GPTQ's first format stores zero - 1, so that 255 there means 256.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

template <class Sink>
void walk_G4(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 19) sink.zeroed(32, load_half(data), code(byte_at(data, 2)), nibbles(data + 3));
}

// Codes and zero less 128, so that the codes are signed bytes.
template <class Sink>
void walk_G8(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 36)
    sink.zeroed(32, load_half(data), code(load_unaligned<std::uint16_t>(data + 2)) - 128.0F,
                [&](int i) { return static_cast<int>(byte_at(data, 4 + i)) - 128; });
}

}  // namespace

KNAP_INTEGER_FORMAT(G4)
KNAP_INTEGER_FORMAT(G8)

}  // namespace knapsack::formats
