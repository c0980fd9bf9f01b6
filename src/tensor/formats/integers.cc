// Plain integers, as the nearest float: I8, I16, I32, I64; BOOL is 0 or 1.
#include "tensor/formats/formats.h"

namespace knapsack::formats {
namespace {

template <class T>
void decode(const std::byte* data, float* out, std::int64_t blocks) {
  for (std::int64_t i = 0; i < blocks; ++i)
    out[i] = static_cast<float>(load_unaligned<T>(data + static_cast<std::int64_t>(sizeof(T)) * i));
}

}  // namespace

void decode_I8(const std::byte* data, float* out, std::int64_t blocks) { decode<std::int8_t>(data, out, blocks); }
void decode_BOOL(const std::byte* data, float* out, std::int64_t blocks) { decode<std::uint8_t>(data, out, blocks); }
void decode_I16(const std::byte* data, float* out, std::int64_t blocks) { decode<std::int16_t>(data, out, blocks); }
void decode_I32(const std::byte* data, float* out, std::int64_t blocks) { decode<std::int32_t>(data, out, blocks); }
void decode_I64(const std::byte* data, float* out, std::int64_t blocks) { decode<std::int64_t>(data, out, blocks); }

}  // namespace knapsack::formats
