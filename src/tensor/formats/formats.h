// What each file of this folder defines: decode_<id> for every row of formats.inc, levels_<id> for those of levels.inc,
// encode_<id> for a few.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace knapsack::formats {

#define KNAP_FORMAT(id, ggml, block, bytes) void decode_##id(const std::byte* data, float* out, std::int64_t blocks);
#include "tensor/formats.inc"
#undef KNAP_FORMAT

#define KNAP_LEVELS(id, bits, group, zero) \
  void levels_##id(const std::byte* data, const Levels& out, std::int64_t blocks);
#include "tensor/levels.inc"
#undef KNAP_LEVELS

void encode_F32(const float* in, std::byte* data, std::int64_t blocks);
void encode_F16(const float* in, std::byte* data, std::int64_t blocks);
void encode_BF16(const float* in, std::byte* data, std::int64_t blocks);
void encode_Q4_0(const float* in, std::byte* data, std::int64_t blocks);
void encode_Q4_1(const float* in, std::byte* data, std::int64_t blocks);
void encode_Q8_0(const float* in, std::byte* data, std::int64_t blocks);

inline float load_half(const std::byte* p) { return half_to_float(load_unaligned<std::uint16_t>(p)); }
inline unsigned byte_at(const std::byte* p, std::int64_t i) { return std::to_integer<unsigned>(p[i]); }
// An unsigned code as a float: an int first, which converts in one instruction.
inline float code(unsigned value) { return static_cast<float>(static_cast<int>(value)); }

}  // namespace knapsack::formats
