// Plain floating point: F32, F16, BF16, F64 (rounded to float).
#include <cstring>

#include "tensor/formats/formats.h"

namespace knapsack::formats {

void decode_F32(const std::byte* data, float* out, std::int64_t blocks) {
  std::memcpy(out, data, static_cast<std::size_t>(blocks) * sizeof(float));
}

void decode_F16(const std::byte* data, float* out, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) out[i] = load_half(data + 2 * i);
}

void decode_BF16(const std::byte* data, float* out, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) out[i] = bf16_to_float(load_unaligned<std::uint16_t>(data + 2 * i));
}

void decode_F64(const std::byte* data, float* out, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) out[i] = static_cast<float>(load_unaligned<double>(data + 8 * i));
}

void encode_F32(const float* in, std::byte* data, std::int64_t blocks) {
  std::memcpy(data, in, static_cast<std::size_t>(blocks) * sizeof(float));
}

void encode_F16(const float* in, std::byte* data, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::uint16_t half = float_to_half(in[i]);
    std::memcpy(data + 2 * i, &half, sizeof(half));
  }
}

void encode_BF16(const float* in, std::byte* data, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::uint16_t bits = float_to_bf16(in[i]);
    std::memcpy(data + 2 * i, &bits, sizeof(bits));
  }
}

}  // namespace knapsack::formats
