// A block format is written down once, as groups of integer codes with a scale and a zero or a min; a sink turns a
// group into float values (decode) or keeps the integers (levels), which is what fast kernels multiply.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/formats/formats.h"

namespace knapsack::formats {

// count: 16, 32 or 256 (values of a group). code(i) for i in [0, count). Where the two halves of 32 are spelled
// differently, as nibbles are, two_halves() makes loops that become vector code: first(i) and second(i) for i in [0,
// 16).
template <class First, class Second>
struct Halves {
  First first;
  Second second;
};
template <class First, class Second>
Halves<First, Second> two_halves(First first, Second second) {
  return {first, second};
}

// Q4_0's nibbles: byte j of 16 holds element j in its low half, element j + 16 in its high one.
inline auto nibbles(const std::byte* p) {
  return two_halves([=](int i) { return byte_at(p, i) & 15; }, [=](int i) { return byte_at(p, i) >> 4; });
}

// each(number) for the numbers below `count`, as types: what shifts by a constant becomes vector code.
template <int count, class Each>
void each_constant(Each each) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (each(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, count>{});
}

// The codes of two groups of 16, whose bits lie together: gcc makes vector code of a loop of 32, but not of 16.
class Codes32 {
 public:
  template <class Code>
  explicit Codes32(Code code) {
    for (int i = 0; i < 32; ++i) codes_[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(code(i));
  }
  // Borrowed.
  [[nodiscard]] auto from(int first) const {
    return [p = codes_.data() + first](int i) { return unsigned{p[i]}; };
  }

 private:
  std::array<std::uint8_t, 32> codes_;
};

// put(i, code) for each of a group.
template <class Code, class Put>
void each_code(int count, Code code, Put put) {
  for (int i = 0; i < count; ++i) put(i, static_cast<int>(code(i)));
}
template <class First, class Second, class Put>
void each_code(int /*count*/, Halves<First, Second> code, Put put) {
  for (int i = 0; i < 16; ++i) put(i, static_cast<int>(code.first(i)));
  for (int i = 0; i < 16; ++i) put(16 + i, static_cast<int>(code.second(i)));
}

class ValueSink {
 public:
  explicit ValueSink(float* out) : out_(out) {}
  // value = scale * (code - zero)
  template <class Code>
  void zeroed(int count, float scale, float zero, Code code) {
    each_code(count, code, [&](int i, int c) { out_[i] = scale * (static_cast<float>(c) - zero); });
    out_ += count;
  }
  // value = scale * code + min
  template <class Code>
  void affine(int count, float scale, float min, Code code) {
    each_code(count, code, [&](int i, int c) { out_[i] = scale * static_cast<float>(c) + min; });
    out_ += count;
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
    std::array<std::uint8_t, 256> codes;  // of its own: bytes in memory might alias, and loops would stay scalar
    each_code(count, code, [&](int i, int c) { codes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(c); });
    std::copy_n(codes.begin(), count, codes_);
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
