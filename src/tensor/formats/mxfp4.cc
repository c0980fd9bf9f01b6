// MXFP4 as ggml stores it: {u8 exponent e; 16 bytes}, nibbles as in Q4_0, value = 2^(e-128) * (2 * e2m1(code)).
#include <array>
#include <bit>

#include "tensor/formats/formats.h"
#include "tensor/formats/sink.h"

namespace knapsack::formats {
namespace {

constexpr std::array<std::int8_t, 16> doubled_e2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e-128), which is subnormal for e < 2.
float half_power(unsigned e) { return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23); }

template <class Sink>
void walk_MXFP4(const std::byte* data, Sink sink, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 17)
    sink.zeroed(32, half_power(byte_at(data, 0)), 0,
                two_halves([=](int i) { return doubled_e2m1[byte_at(data + 1, i) & 15]; },
                           [=](int i) { return doubled_e2m1[byte_at(data + 1, i) >> 4]; }));
}

}  // namespace

KNAP_INTEGER_FORMAT(MXFP4)

}  // namespace knapsack::formats
