// Q8_0: {f16 scale; 32 x i8}, value = scale * code.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {

namespace {

template <class Sink>
void walk_Q8_0(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 34)
    sink.zeroed(32, load_half(data), 0, [&](int i) { return static_cast<std::int8_t>(data[2 + i]); });
}

}  // namespace

KNAP_INTEGER_FORMAT(Q8_0)

void encode_Q8_0(const float* in, std::byte* data, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 34, in += 32) {
    float largest = 0;
    for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(in[j]));
    const float scale = largest / 127.0F;
    const float inverse = scale == 0 ? 0.0F : 1.0F / scale;
    const std::uint16_t half = float_to_half(scale);
    std::memcpy(data, &half, sizeof(half));
    for (int j = 0; j < 32; ++j) {
      const float rounded = std::clamp(std::round(in[j] * inverse), -127.0F, 127.0F);
      data[2 + j] = static_cast<std::byte>(static_cast<std::int8_t>(rounded));
    }
  }
}

}  // namespace knapsack::formats
