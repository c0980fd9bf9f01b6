// A block format is written down once, as groups of integer codes with a scale and a zero or a min; a sink turns a
// group into float values (decode) or keeps the integers (levels), which is what fast kernels multiply.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/dtype.h"

namespace knapsack::formats {

class ValueSink {
 public:
  explicit ValueSink(float* out) : out_(out) {}
  // value = scale * (code - zero); code(i) for i in [0, count).
  template <class Code>
  void zeroed(int count, float scale, float zero, Code code) {
    for (int i = 0; i < count; ++i) *out_++ = scale * (static_cast<float>(static_cast<int>(code(i))) - zero);
  }
  // value = scale * code + min
  template <class Code>
  void affine(int count, float scale, float min, Code code) {
    for (int i = 0; i < count; ++i) *out_++ = scale * static_cast<float>(static_cast<int>(code(i))) + min;
  }

 private:
  float* out_;
};

class LevelSink {
 public:
  explicit LevelSink(const Levels& out) : codes_(out.codes), scales_(out.scales), mins_(out.mins) {}
  template <class Code>
  void zeroed(int count, float scale, float zero, Code code) {
    affine(count, scale, -zero * scale, code);
  }
  template <class Code>
  void affine(int count, float scale, float min, Code code) {
    for (int i = 0; i < count; ++i) codes_[i] = static_cast<std::uint8_t>(code(i));
    codes_ += count;
    for (int i = 0; i < count; i += level_group) {
      *scales_++ = scale;
      *mins_++ = min;
    }
  }

 private:
  std::uint8_t* codes_;
  float* scales_;
  float* mins_;
};

// Both readers of a format, from its walk(data, sink, blocks).
#define KNAP_INTEGER_FORMAT(id)                                                     \
  void decode_##id(const std::byte* data, float* out, std::int64_t blocks) {        \
    walk_##id(data, ValueSink(out), blocks);                                        \
  }                                                                                 \
  void levels_##id(const std::byte* data, const Levels& out, std::int64_t blocks) { \
    walk_##id(data, LevelSink(out), blocks);                                        \
  }

}  // namespace knapsack::formats
