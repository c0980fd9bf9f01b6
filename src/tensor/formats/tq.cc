// Ternary: value = d * (digit - 1).
// TQ1_0: {48 bytes of five base-3 digits; 4 bytes of four; f16 d}. A byte is ceil(number * 256 / 243), so digit n is
// the integer part of 3 * frac(byte * 3^n / 256). Digit n of the first 32 bytes are elements 32n.., of the next 16
// bytes 160 + 16n.., of the last four 240 + 4n... TQ2_0: {64 bytes of 2-bit digits; f16 d}; bits 2j of byte i of each
// 32 are element 32j + i of 128.
#include "tensor/formats/formats.h"

namespace knapsack::formats {
namespace {

void decode_digits(const std::byte* data, int bytes, int digits, float d, float* out) {
  unsigned power = 1;
  for (int n = 0; n < digits; ++n, power *= 3)
    for (int i = 0; i < bytes; ++i) {
      const unsigned fraction = byte_at(data, i) * power & 255;
      *out++ = d * (code(fraction * 3 >> 8) - 1.0F);
    }
}

}  // namespace

void decode_TQ1_0(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 54, out += 256) {
    const float d = load_half(data + 52);
    decode_digits(data, 32, 5, d, out);
    decode_digits(data + 32, 16, 5, d, out + 160);
    decode_digits(data + 48, 4, 4, d, out + 240);
  }
}

void decode_TQ2_0(const std::byte* data, float* out, std::int64_t blocks) {
  for (; blocks > 0; --blocks, data += 66, out += 256) {
    const float d = load_half(data + 64);
    for (int i = 0; i < 256; ++i) {
      const unsigned digit = byte_at(data, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3;
      out[i] = d * (code(digit) - 1.0F);
    }
  }
}

}  // namespace knapsack::formats
