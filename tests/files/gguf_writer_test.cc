// What GgufWriter writes is what GgufFile reads, and a failure leaves no file.
#include "files/gguf_writer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "files/gguf.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

std::function<Result<void>(std::span<std::byte>)> filled_with(int value) {
  return [value](std::span<std::byte> out) -> Result<void> {
    std::memset(out.data(), value, out.size());
    return {};
  };
}

TEST(GgufWriter, RoundTrip) {
  const TempDir dir;
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_u32("u32", 4000000000U);
  writer.add_f32("f32", 1e-5F);
  writer.add_bool("bool", true);
  const std::vector<std::string> strings = {"<s>", "", "中文", std::string("a\0b", 3)};
  const std::vector<float> floats = {0.5F, -1000.0F};
  const std::vector<std::int32_t> ints = {1, -6};
  writer.add_strings("strings", strings);
  writer.add_f32s("floats", floats);
  writer.add_i32s("ints", ints);
  writer.add_strings("none", {});
  writer.add_tensor("token_embd.weight", DType::F16, {3, 5}, filled_with(1));
  writer.add_tensor("norm", DType::F32, {5}, filled_with(2));
  writer.add_tensor("experts", DType::Q8_0, {2, 3, 64}, filled_with(3));
  writer.add_tensor("last", DType::BF16, {1, 1, 1, 1}, filled_with(4));
  std::vector<std::uint64_t> steps;
  std::uint64_t all = 0;
  const auto written = writer.write(dir.file("m.gguf"), [&](std::uint64_t done, std::uint64_t total) {
    steps.push_back(done);
    all = total;
  });
  ASSERT_TRUE(written.has_value()) << written.error().message;
  EXPECT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps.back(), all);

  const auto opened = GgufFile::open(dir.file("m.gguf"));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const auto& file = **opened;
  EXPECT_EQ(file.version(), 3U);
  EXPECT_TRUE(file.oddities().empty());
  EXPECT_EQ(*file.string("general.architecture"), "llama");
  EXPECT_EQ(*file.integer("u32"), 4000000000);
  EXPECT_EQ(*file.number("f32"), double{1e-5F});
  EXPECT_TRUE(*file.boolean("bool"));
  const auto read = *file.string_array("strings");
  EXPECT_EQ(std::vector<std::string>(read.begin(), read.end()), strings);
  EXPECT_EQ(*file.f32_array("floats"), floats);
  EXPECT_EQ(*file.i32_array("ints"), ints);
  EXPECT_TRUE(file.string_array("none")->empty());
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.tensor("token_embd.weight")->shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(file.tensor("experts")->shape, (std::vector<std::int64_t>{2, 3, 64}));
  EXPECT_EQ(file.tensor("experts")->dtype, DType::Q8_0);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, int>>{{"token_embd.weight", 1}, {"norm", 2}, {"experts", 3}, {"last", 4}}) {
    for (const std::byte byte : file.tensor(name)->data) ASSERT_EQ(byte, static_cast<std::byte>(value)) << name;
  }
}

TEST(GgufWriter, NoTensorsNoEntries) {
  const TempDir dir;
  GgufWriter writer;
  ASSERT_TRUE(writer.write(dir.file("m.gguf")).has_value());
  EXPECT_TRUE(GgufFile::open(dir.file("m.gguf")).has_value());
}

TEST(GgufWriter, AFailingTensorLeavesTheOldFile) {
  const TempDir dir;
  write_file(dir.file("m.gguf"), "old");
  GgufWriter writer;
  writer.add_tensor("a", DType::F32, {4}, filled_with(1));
  writer.add_tensor("b", DType::F32, {4},
                    [](std::span<std::byte>) -> Result<void> { return bad_input("tensor b: no"); });
  const auto written = writer.write(dir.file("m.gguf"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().message, "tensor b: no");
  EXPECT_EQ(read_file(dir.file("m.gguf")), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(GgufWriter, AFolderThatIsNotThere) {
  const TempDir dir;
  GgufWriter writer;
  const auto written = writer.write(dir.file("no/m.gguf"));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::usage);
  EXPECT_NE(written.error().message.find("no/m.gguf"), std::string::npos);
}

TEST(GgufWriterDeathTest, OurOwnMistakes) {
  GgufWriter writer;
  writer.add_u32("k", 1);
  EXPECT_DEATH(writer.add_u32("k", 2), "does not hold");
  EXPECT_DEATH(writer.add_tensor("a", DType::Q8_0, {16}, {}), "does not hold");
  EXPECT_DEATH(writer.add_tensor("a", DType::G4, {32}, {}), "does not hold");
  EXPECT_DEATH(writer.add_tensor(std::string(64, 'n'), DType::F32, {1}, {}), "does not hold");
}

}  // namespace
}  // namespace knapsack::testing
