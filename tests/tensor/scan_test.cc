// scan() must say of every format exactly what decoding everything says.
#include "tensor/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace knapsack {
namespace {

std::optional<Fault> brute_force(DType dtype, const std::vector<std::byte>& data) {
  const FormatInfo& info = format(dtype);
  const auto blocks = static_cast<std::int64_t>(data.size()) / info.block_bytes;
  std::vector<float> values(static_cast<std::size_t>(blocks * info.block));
  info.decode(data.data(), values.data(), blocks);
  Fault fault;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    if (fault.count++ == 0) {
      fault.index = static_cast<std::int64_t>(i);
      fault.value = values[i];
    }
  }
  return fault.count == 0 ? std::nullopt : std::optional(fault);
}

TEST(Scan, AgreesWithDecodingEverything) {
  std::mt19937 random(7);
  for (const FormatInfo& info : all_formats()) {
    int clean = 0;
    for (int round = 0; round < 60; ++round) {
      // Random bytes hold a non-finite half about once in 32; few blocks give both outcomes.
      std::vector<std::byte> data(static_cast<std::size_t>(info.block_bytes * (1 + round % 7)));
      for (auto& byte : data) byte = static_cast<std::byte>(random());
      const auto expected = brute_force(info.dtype, data);
      const auto found = scan(info.dtype, data);
      ASSERT_EQ(found.has_value(), expected.has_value()) << info.name;
      if (!found) {
        ++clean;
        continue;
      }
      EXPECT_EQ(found->index, expected->index) << info.name;
      EXPECT_EQ(found->count, expected->count) << info.name;
      EXPECT_EQ(std::isnan(found->value), std::isnan(expected->value)) << info.name;
    }
    EXPECT_GT(clean, 0) << info.name;
  }
}

TEST(Scan, FindsOneBadScaleFarIn) {
  for (const FormatInfo& info : all_formats()) {
    const std::int64_t blocks = 20'000 / info.block;
    std::vector<std::byte> data(static_cast<std::size_t>(blocks * info.block_bytes));
    EXPECT_FALSE(scan(info.dtype, data).has_value()) << info.name;
    const std::int64_t bad = blocks - 3;
    std::fill_n(data.begin() + bad * info.block_bytes, info.block_bytes, std::byte{0xff});
    const auto expected = brute_force(info.dtype, data);
    const auto found = scan(info.dtype, data);
    ASSERT_EQ(found.has_value(), expected.has_value()) << info.name;
    if (!found) continue;
    EXPECT_EQ(found->index, expected->index) << info.name;
    EXPECT_EQ(found->count, expected->count) << info.name;
  }
}

TEST(Scan, NothingInNothing) { EXPECT_FALSE(scan(DType::F32, {}).has_value()); }

}  // namespace
}  // namespace knapsack
