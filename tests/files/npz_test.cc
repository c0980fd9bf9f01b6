// NumPy archives that are compressed: what numpy itself wrote, and what a broken or hostile file could hold. (Stored
// ones: tests/align/align_test.cc.)
#include "files/npz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "support/npz.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::Npz;

Result<std::vector<NpyArray>> parsed(std::string_view bytes) {
  return parse_npz(std::as_bytes(std::span(bytes)), "x.npz");
}

std::string message(std::string_view bytes) {
  const auto arrays = parsed(bytes);
  return arrays ? "none" : arrays.error().message;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// numpy.savez_compressed's, of transformers' values: the logits are the golden ones.
TEST(NpzDeflated, WhatNumpyWroteIsRead) {
  const auto file = open_npz(testing::data_path("data/align/qwen2-tied-gqa.npz").string());
  ASSERT_TRUE(file) << file.error().message;
  const auto named = [&](std::string_view name) {
    const auto at =
        std::find_if(file->arrays.begin(), file->arrays.end(), [&](const auto& a) { return a.name == name; });
    return at == file->arrays.end() ? nullptr : &*at;
  };
  const NpyArray* ids = named("ids");
  const NpyArray* logits = named("logits");
  ASSERT_TRUE(ids != nullptr && logits != nullptr);
  EXPECT_EQ(ids->elements(), 3);
  EXPECT_GT(ids->integer_at(2), 0);
  ASSERT_EQ(logits->shape, (std::vector<std::int64_t>{3, 512}));
  EXPECT_TRUE(logits->unpacked != nullptr);
  std::vector<float> found(3 * 512);
  logits->floats_at(0, found);
  const std::string golden = testing::read_file(testing::data_path("golden/qwen2-tied-gqa/logits_a.f32"));
  for (std::size_t i = 0; i < found.size(); ++i) {
    float expected = 0;
    std::memcpy(&expected, golden.data() + i * sizeof(float), sizeof(float));
    ASSERT_NEAR(found[i], expected, 1e-4) << i;
  }
}

TEST(NpzDeflated, ValuesAndEmptyArraysSurvive) {
  Npz npz;
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  npz.add("a", "<f4", "(10, 100)", floats(values), Npz::deflated);
  npz.add("none", "<f4", "(0, 4)", "", Npz::deflated);
  npz.add("plain", "<f4", "(10, 100)", floats(values));
  const std::string bytes = npz.file();
  const auto arrays = parsed(bytes);
  ASSERT_TRUE(arrays) << arrays.error().message;
  for (const std::size_t at : {0, 2}) {
    std::vector<float> found(values.size());
    arrays->at(at).floats_at(0, found);
    EXPECT_EQ(found, values) << at;
  }
  EXPECT_EQ(arrays->at(1).elements(), 0);
}

// Cut anywhere, or with any byte of what is packed changed: refused, and never by accident read.
TEST(NpzDeflated, BrokenOnesAreRefused) {
  Npz npz;
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 31);
  const std::string array = Npz::npy("<f4", "(64,)", floats(values));
  const std::string packed = Npz::deflate(array);
  npz.add("a", "<f4", "(64,)", floats(values), Npz::deflated);
  const std::string whole = npz.file();
  EXPECT_EQ(message(whole), "none");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(message(whole.substr(0, size)), "none") << size;
  constexpr std::size_t begin = 30 + 5;
  for (std::size_t at = 0; at + 1 < packed.size(); ++at)  // the last has spare bits
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[begin + at] = static_cast<char>(changed[begin + at] ^ (1 << bit));
      EXPECT_NE(message(changed), "none") << at << " " << bit;
    }
  const auto entry = [&](const std::string& held, std::size_t size, std::uint32_t crc) {
    Npz made;
    made.member("a", held, size, crc, Npz::deflated);
    return message(made.file());
  };
  const std::uint32_t crc = Npz::crc(array);
  EXPECT_EQ(entry(packed, array.size(), crc), "none");
  EXPECT_NE(entry(packed, array.size(), crc ^ 1).find("its bytes were changed"), std::string::npos);
  EXPECT_NE(entry(packed, array.size() + 1, crc).find(fmt::format("it unpacks to {} bytes, expected", array.size())),
            std::string::npos);
  EXPECT_NE(entry(packed, array.size() - 1, crc).find("it unpacks to more than"), std::string::npos);
  EXPECT_NE(entry(packed.substr(0, packed.size() - 4), array.size(), crc).find("end too early"), std::string::npos);
  EXPECT_NE(entry(packed + "....", array.size(), crc).find("4 bytes follow the end"), std::string::npos);
  EXPECT_NE(entry("", 0, 0).find("end too early"), std::string::npos);
}

// What a small file may make us ask for is bounded before it is asked for.
TEST(NpzDeflated, BombsAreRefused) {
  constexpr std::size_t mib = 1 << 20;
  Npz lie;
  lie.member("a", "\x03", 3000 * mib, 0, Npz::deflated);
  EXPECT_NE(message(lie.file()).find("3145728000 bytes cannot be packed into 1"), std::string::npos);
  const std::string zeros(24 * mib, '\0');
  Npz bomb;
  bomb.add("a", "<f4", "(6291456,)", zeros, Npz::deflated);
  const auto refused = parsed(bomb.file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("over 32 times the file's"), std::string::npos) << refused.error().message;
  // Each small enough, together not.
  const std::string some(8 * mib, '\0');
  Npz many;
  many.add("a", "<f4", "(2097152,)", some, Npz::deflated);
  EXPECT_EQ(message(many.file()), "none");
  many.add("b", "<f4", "(2097152,)", some, Npz::deflated);
  many.add("c", "<f4", "(2097152,)", some, Npz::deflated);
  EXPECT_NE(message(many.file()).find("over 32 times the file's"), std::string::npos);
}

}  // namespace
}  // namespace knapsack
