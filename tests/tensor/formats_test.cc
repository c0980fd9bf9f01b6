// Every storage format against golden blocks (tools/golden/formats.py), encoders against their decoders.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "support/support.h"
#include "tensor/dtype.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

const std::set<DType> plain = {DType::F32, DType::F16, DType::F64, DType::I8,
                               DType::I16, DType::I32, DType::I64, DType::BOOL};

std::vector<float> decode(const FormatInfo& f, const std::byte* data, std::int64_t blocks) {
  std::vector<float> out(static_cast<std::size_t>(blocks * f.block));
  f.decode(data, out.data(), blocks);
  return out;
}

TEST(Formats, GoldenBlocksDecodeToTheSameBits) {
  for (const FormatInfo& f : all_formats()) {
    if (plain.contains(f.dtype)) continue;
    SCOPED_TRACE(f.name);
    const std::string file = testing::read_file(testing::data_path("golden/formats/" + std::string(f.name) + ".bin"));
    ASSERT_GE(file.size(), 4U);
    std::uint32_t blocks = 0;
    std::memcpy(&blocks, file.data(), 4);
    const std::size_t bytes = blocks * static_cast<std::size_t>(f.block_bytes);
    const std::size_t values = blocks * static_cast<std::size_t>(f.block);
    ASSERT_EQ(file.size(), 4 + bytes + 4 * values);
    const auto got = decode(f, reinterpret_cast<const std::byte*>(file.data()) + 4, blocks);
    for (std::size_t i = 0; i < values; ++i) {
      float want = 0;
      std::memcpy(&want, file.data() + 4 + bytes + 4 * i, 4);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want))
          << "element " << i << ": " << got[i] << " for " << want;
    }
  }
}

TEST(Formats, LevelsStandForTheSameValues) {
  int formats = 0;
  for (const FormatInfo& f : all_formats()) {
    EXPECT_EQ(f.levels != nullptr, f.level_bits != 0) << f.name;
    if (f.levels == nullptr) continue;
    SCOPED_TRACE(f.name);
    ++formats;
    const std::string file = testing::read_file(testing::data_path("golden/formats/" + std::string(f.name) + ".bin"));
    std::uint32_t blocks = 0;
    std::memcpy(&blocks, file.data(), 4);
    const auto* data = reinterpret_cast<const std::byte*>(file.data()) + 4;
    const auto values = decode(f, data, blocks);
    std::vector<std::uint8_t> bytes(values.size());
    std::vector<float> scales(values.size() / level_group);
    std::vector<float> mins(scales.size());
    f.levels(data, {.codes = bytes.data(), .scales = scales.data(), .mins = mins.data()}, blocks);
    std::vector<int> codes(bytes.begin(), bytes.end());
    if (f.level_bits == 8)
      for (int& code : codes) code = static_cast<std::int8_t>(code);
    const int low = f.level_bits == 8 ? -128 : 0;
    const int high = f.level_bits == 8 ? 127 : (1 << f.level_bits) - 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(codes[i] >= low && codes[i] <= high) << i << ": " << codes[i];
      const double scale = scales[i / level_group];
      const double min = mins[i / level_group];
      const double sum = scale * codes[i] + min;
      // Rounding: of the product, of the sum, of the min itself.
      ASSERT_NEAR(sum, values[i], (std::fabs(scale * codes[i]) + 2 * std::fabs(min)) * 0x1p-23 + 0x1p-140) << i;
    }
  }
  EXPECT_EQ(formats, 17);
}

TEST(Formats, PlainTypesDecodeToTheirValues) {
  const auto check = [](DType dtype, auto value, float want) {
    EXPECT_EQ(decode(format(dtype), reinterpret_cast<const std::byte*>(&value), 1)[0], want) << name(dtype);
  };
  check(DType::F32, 1.25F, 1.25F);
  check(DType::F64, 0.1, 0.1F);
  check(DType::F16, std::uint16_t{0xc000}, -2.0F);
  check(DType::I8, std::int8_t{-7}, -7.0F);
  check(DType::I16, std::int16_t{-300}, -300.0F);
  check(DType::I32, std::int32_t{1 << 30}, 0x1p30F);
  check(DType::I64, std::int64_t{-1} << 40, -0x1p40F);
}

TEST(Formats, E4M3NanStaysNan) {
  for (const std::byte code : {std::byte{0x7f}, std::byte{0xff}})
    EXPECT_TRUE(std::isnan(decode(format(DType::F8_E4M3), &code, 1)[0]));
}

TEST(Formats, NamesAndNumbersFindTheirRow) {
  std::set<int> numbers;
  for (const FormatInfo& f : all_formats()) {
    EXPECT_EQ(&format(f.dtype), &f);
    EXPECT_EQ(dtype_from_name(f.name), f.dtype);
    if (f.ggml_type < 0) continue;
    EXPECT_TRUE(numbers.insert(f.ggml_type).second) << f.name;
    EXPECT_EQ(dtype_from_ggml(static_cast<std::uint32_t>(f.ggml_type)), f.dtype);
  }
  EXPECT_FALSE(dtype_from_ggml(4).has_value());            // Q4_2, long gone
  EXPECT_FALSE(dtype_from_ggml(0xffffffffU).has_value());  // not ours, which have -1
  EXPECT_FALSE(dtype_from_name("q4_0").has_value());
}

TEST(Formats, EncodersRoundToTheNearestCode) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const FormatInfo& f : all_formats()) {
    if (f.encode == nullptr) continue;
    SCOPED_TRACE(f.name);
    const std::int64_t blocks = 2048 / f.block;
    std::vector<float> in(2048);
    for (float& v : in) v = normal(random);
    for (int i = 0; i < 32; ++i) in[static_cast<std::size_t>(i)] = 0;
    std::vector<std::byte> data(static_cast<std::size_t>(blocks * f.block_bytes));
    f.encode(in.data(), data.data(), blocks);
    const auto out = decode(f, data.data(), blocks);
    for (std::int64_t b = 0; b < 2048 / 32; ++b) {
      float low = 0;
      float high = 0;
      for (std::int64_t i = 32 * b; i < 32 * b + 32; ++i) {
        low = std::min(low, in[static_cast<std::size_t>(i)]);
        high = std::max(high, in[static_cast<std::size_t>(i)]);
      }
      const float largest = std::max(-low, high);
      float step = 0;  // of the block's grid; the largest error is half of it, but a whole one where a grid is lopsided
      if (f.dtype == DType::Q4_0) step = largest / 8 * 2;
      if (f.dtype == DType::Q4_1) step = (high - low) / 15;
      if (f.dtype == DType::Q8_0) step = largest / 127;
      if (f.dtype == DType::F16) step = largest * 0x1p-10F;
      if (f.dtype == DType::BF16) step = largest * 0x1p-7F;
      const float rounded_scale = f.block > 1 ? largest * 0x1p-9F : 0;  // the scale itself is a half
      for (std::int64_t i = 32 * b; i < 32 * b + 32; ++i)
        EXPECT_LE(std::fabs(in[static_cast<std::size_t>(i)] - out[static_cast<std::size_t>(i)]),
                  step / 2 + rounded_scale)
            << i;
    }
    // What a decoder gave encodes to itself.
    std::vector<std::byte> again(data.size());
    f.encode(out.data(), again.data(), blocks);
    if (f.block == 1) {
      EXPECT_EQ(data, again);
    }
  }
}

}  // namespace
}  // namespace knapsack
