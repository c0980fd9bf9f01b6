// Q6_K: {128 bytes of low nibbles; 64 bytes of upper two bits; 16 x i8 scale, one a 16 elements; f16 d}.
// value = d * scale * (code - 32). Each half block of 128 elements: element 32q + i (q = 0..3) has its low nibble in
// byte (q % 2) * 32 + i of 64, the low one for q < 2, and its upper bits at bits 2q of byte i of 32.
#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

template <class Sink>
void walk_Q6_K(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 210) {
    const float d = load_half(data + 208);
    each_constant<8>([&](auto number) {
      constexpr int half = number / 4;
      constexpr int quarter = number % 4;
      const std::byte* low = data + half * 64 + quarter % 2 * 32;
      const std::byte* high = data + 128 + half * 32;
      const Codes32 codes([=](int i) {
        return (byte_at(low, i) >> (quarter / 2 * 4) & 15) | (byte_at(high, i) >> (2 * quarter) & 3) << 4;
      });
      for (const int group : {0, 1})
        sink.zeroed(16, d * static_cast<float>(static_cast<std::int8_t>(data[192 + 2 * number + group])), 32,
                    codes.from(16 * group));
    });
  }
}

}  // namespace

KNAP_INTEGER_FORMAT(Q6_K)

}  // namespace knapsack::formats
