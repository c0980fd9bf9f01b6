// Q4_0: {f16 scale; 16 bytes}, value = scale * (code - 8). Q4_1: {f16 scale; f16 min; 16 bytes}, value = scale * code
// + min. Byte j holds element j in its low nibble and element j + 16 in its high one.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

void store_half(std::byte* p, float value) {
  const std::uint16_t half = float_to_half(value);
  std::memcpy(p, &half, sizeof(half));
}

// The codes of a block: round(value * inverse + offset), half up, within 4 bits.
void pack(const float* in, float base, float inverse, float offset, std::byte* codes) {
  const auto quantize = [&](float v) {
    return static_cast<unsigned>(std::clamp((v - base) * inverse + offset, 0.0F, 15.0F));
  };
  for (int j = 0; j < 16; ++j) codes[j] = static_cast<std::byte>(quantize(in[j]) | quantize(in[j + 16]) << 4);
}

template <class Sink>
void walk_Q4_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 18) sink.zeroed(32, load_half(data), 8, nibbles(data + 2));
}

template <class Sink>
void walk_Q4_1(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 20) sink.affine(32, load_half(data), load_half(data + 2), nibbles(data + 4));
}

}  // namespace

KNAP_INTEGER_FORMAT(Q4_0)
KNAP_INTEGER_FORMAT(Q4_1)

void encode_Q4_0(const float* in, std::byte* data, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 18, in += 32) {
    // The value of the largest magnitude gets code 0 exactly, so its sign decides the scale's.
    float extreme = 0;
    for (int j = 0; j < 32; ++j)
      if (std::fabs(in[j]) > std::fabs(extreme)) extreme = in[j];
    const float scale = extreme / -8.0F;
    store_half(data, scale);
    pack(in, 0.0F, scale == 0 ? 0.0F : 1.0F / scale, 8.5F, data + 2);
  }
}

void encode_Q4_1(const float* in, std::byte* data, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 20, in += 32) {
    const auto [min, max] = std::minmax_element(in, in + 32);
    const float scale = (*max - *min) / 15.0F;
    store_half(data, scale);
    store_half(data + 2, *min);
    pack(in, *min, scale == 0 ? 0.0F : 1.0F / scale, 0.5F, data + 4);
  }
}

}  // namespace knapsack::formats
