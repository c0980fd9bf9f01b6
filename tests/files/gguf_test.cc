// GGUF as it should be: every value kind, alignments, splits, typed look-ups.
#include "files/gguf.h"

#include <gtest/gtest.h>

#include "files/craft.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

class Gguf : public ::testing::Test {
 protected:
  std::string save(const std::string& bytes, const std::string& name = "m.gguf") {
    write_file(dir_.file(name), bytes);
    return dir_.file(name);
  }
  std::shared_ptr<const GgufFile> open(const std::string& bytes) {
    auto file = GgufFile::open(save(bytes));
    EXPECT_TRUE(file.has_value()) << file.error().message;
    return file ? *file : nullptr;
  }
  TempDir dir_;
};

TEST_F(Gguf, TensorsLieWhereTheFileSays) {
  const std::string bytes = CraftedGguf().build();
  const auto file = open(bytes);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->version(), 3U);
  ASSERT_EQ(file->tensors().size(), 3U);
  const GgufTensor* b = file->tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(b->dtype, DType::F32);
  EXPECT_EQ(b->data.size(), 48U);
  EXPECT_EQ(b->offset % 32, 0U);
  EXPECT_EQ(b->data.data(), file->parts()[0]->bytes().data() + b->offset);
  EXPECT_EQ(file->tensor("c")->data.size(), 68U);
  EXPECT_EQ(file->tensor("d"), nullptr);
  EXPECT_LE(file->header(0).size(), file->tensors()[0].offset);
  EXPECT_GT(file->header(0).size() + 32, file->tensors()[0].offset);
  EXPECT_TRUE(file->oddities().empty());
}

TEST_F(Gguf, Version2ReadsAlike) {
  CraftedGguf craft;
  craft.version = 2;
  const auto file = open(craft.build());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->version(), 2U);
  EXPECT_EQ(file->tensors().size(), 3U);
}

TEST_F(Gguf, EveryKindOfValue) {
  CraftedGguf craft;
  craft.entry("u8", 0, Bytes().put<std::uint8_t>(200)).entry("i8", 1, Bytes().put<std::int8_t>(-100));
  craft.entry("u16", 2, Bytes().put<std::uint16_t>(60000)).entry("i16", 3, Bytes().put<std::int16_t>(-30000));
  craft.entry("u32", 4, Bytes().u32(4000000000U)).entry("i32", 5, Bytes().put<std::int32_t>(-2000000000));
  craft.entry("f32", 6, Bytes().put(1.5F)).entry("yes", 7, Bytes().u8(1)).entry("no", 7, Bytes().u8(0));
  craft.entry("u64", 10, Bytes().u64(1ULL << 63)).entry("i64", 11, Bytes().put<std::int64_t>(INT64_MIN));
  craft.entry("f64", 12, Bytes().put(1e300)).entry("empty", 8, Bytes().string(""));
  craft.entry("a.i16", 9, Bytes().u32(3).u64(2).put<std::int16_t>(-5).put<std::int16_t>(7));
  craft.entry("a.u64", 9, Bytes().u32(10).u64(2).u64(1).u64(1ULL << 40));
  craft.entry("a.f64", 9, Bytes().u32(12).u64(1).put(0.25));
  craft.entry("a.bool", 9, Bytes().u32(7).u64(3).u8(1).u8(0).u8(1));
  craft.entry("a.none", 9, Bytes().u32(8).u64(0));
  const auto file = open(craft.build());
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(*file->integer("u8"), 200);
  EXPECT_EQ(*file->integer("i8"), -100);
  EXPECT_EQ(*file->integer("u16"), 60000);
  EXPECT_EQ(*file->integer("i16"), -30000);
  EXPECT_EQ(*file->integer("u32"), 4000000000);
  EXPECT_EQ(*file->integer("i32"), -2000000000);
  EXPECT_EQ(*file->integer("i64"), INT64_MIN);
  EXPECT_FALSE(file->integer("u64").has_value());
  EXPECT_EQ(*file->number("u64"), 0x1p63);
  EXPECT_EQ(*file->number("f32"), 1.5);
  EXPECT_EQ(*file->number("f64"), 1e300);
  EXPECT_EQ(*file->number("i8"), -100);
  EXPECT_TRUE(*file->boolean("yes"));
  EXPECT_FALSE(*file->boolean("no"));
  EXPECT_EQ(*file->string("empty"), "");
  EXPECT_EQ(*file->i32_array("a.i16"), (std::vector<std::int32_t>{-5, 7}));
  EXPECT_EQ(*file->f32_array("a.f64"), std::vector<float>{0.25F});
  EXPECT_EQ(*file->bool_array("a.bool"), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(file->string_array("a.none")->empty());
  EXPECT_EQ((*file->string_array("tokenizer.ggml.tokens"))[1], "b");
  EXPECT_EQ(*file->f32_array("tokenizer.ggml.scores"), (std::vector<float>{0.5F, -1.0F}));
  EXPECT_EQ(file->find("absent"), nullptr);
  EXPECT_EQ(file->metadata()[0].first, "general.architecture");
  EXPECT_NE(file->i32_array("a.u64").error().message.find("element 1 does not fit 32 bits"), std::string::npos);
}

TEST_F(Gguf, LookUpsSayWhatWasExpectedAndFound) {
  CraftedGguf craft;
  craft.entry("scores", 9, Bytes().u32(0).u64(2).u8(1).u8(2));
  const auto file = open(craft.build());
  ASSERT_NE(file, nullptr);
  const auto message = [&](const auto& result) { return result.has_value() ? "" : result.error().message; };
  const std::string at = dir_.file("m.gguf") + ": metadata key ";
  EXPECT_EQ(message(file->f32_array("scores")), at + "'scores' must be an array of FLOAT32, found an array of 2 UINT8");
  EXPECT_EQ(message(file->f32_array("nope")), at + "'nope' is missing (expected an array of FLOAT32)");
  EXPECT_EQ(message(file->i32_array("tokenizer.ggml.scores")),
            at + "'tokenizer.ggml.scores' must be an array of INT32, found an array of 2 FLOAT32");
  EXPECT_EQ(message(file->integer("general.architecture")),
            at + "'general.architecture' must be an integer, found the string 'llama'");
  EXPECT_EQ(message(file->string("llama.block_count")),
            at + "'llama.block_count' must be a string, found the unsigned integer 7");
  EXPECT_EQ(message(file->number("tokenizer.ggml.tokens")),
            at + "'tokenizer.ggml.tokens' must be a number, found an array of 2 STRING");
  EXPECT_EQ(message(file->boolean("llama.block_count")),
            at + "'llama.block_count' must be a bool, found the unsigned integer 7");
  EXPECT_FALSE(file->string_array("scores").has_value());
  EXPECT_FALSE(file->bool_array("scores").has_value());
  EXPECT_FALSE(file->f32_array("llama.block_count").has_value());
}

TEST_F(Gguf, EveryAlignmentTheFormatAllows) {
  // Powers of two as the readers in use want them, multiples of 8 as the specification has it.
  for (const std::uint32_t alignment : {1U, 2U, 4U, 8U, 16U, 24U, 40U, 64U, 96U, 256U}) {
    CraftedGguf craft;
    craft.alignment = alignment;
    craft.entry("general.alignment", 4, Bytes().u32(alignment));
    const auto up = [&](std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
    craft.tensors[1].offset = up(16);
    craft.tensors[2].offset = up(craft.tensors[1].offset + 48);
    craft.data = std::string(craft.tensors[2].offset + 68, '\1');
    const auto file = open(craft.build());
    ASSERT_NE(file, nullptr) << alignment;
    EXPECT_EQ(file->tensor("c")->data.data() + 68, file->parts()[0]->bytes().data() + file->parts()[0]->bytes().size());
    EXPECT_TRUE(file->oddities().empty()) << alignment;
  }
}

TEST_F(Gguf, PaddingAfterTheLastTensorMayBeThereOrNot) {
  for (const std::size_t padding : {0, 1, 28, 31}) {
    CraftedGguf craft;
    craft.data.append(padding, '\0');
    const auto file = open(craft.build());
    ASSERT_NE(file, nullptr);
    EXPECT_TRUE(file->oddities().empty());
  }
  CraftedGguf craft;
  craft.data.append(100, '\0');
  EXPECT_EQ(open(craft.build())->oddities().size(), 1U);
}

TEST_F(Gguf, GapsAreOdd) {
  CraftedGguf craft;
  craft.tensors[2].offset += 64;
  craft.data.append(64, '\0');
  const auto file = open(craft.build());
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(file->oddities().size(), 1U);
  EXPECT_NE(file->oddities()[0].find("unused bytes between tensors"), std::string::npos);
}

TEST_F(Gguf, TensorsInAnyOrder) {
  CraftedGguf craft;
  std::swap(craft.tensors[0], craft.tensors[2]);
  EXPECT_NE(open(craft.build()), nullptr);
}

TEST_F(Gguf, AVocabularyAloneNeedsNoPadding) {
  CraftedGguf craft;
  craft.tensors.clear();
  craft.data.clear();
  const auto file = open(craft.build());
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->tensors().empty());
}

TEST_F(Gguf, LongNamesOfOtherEngines) {
  CraftedGguf craft;
  craft.tensors[0].name = std::string(120, 'n');
  EXPECT_NE(open(craft.build()), nullptr);
}

class Split : public Gguf {
 protected:
  static std::string name(int number, int count) {
    char text[64];
    std::snprintf(text, sizeof text, "m-%05d-of-%05d.gguf", number + 1, count);
    return text;
  }
  static CraftedGguf part(int number, int count, int tensors) {
    CraftedGguf craft;
    if (number > 0) craft.entries.clear();
    craft.entry("split.no", 2, Bytes().put(static_cast<std::uint16_t>(number)));
    craft.entry("split.count", 2, Bytes().put(static_cast<std::uint16_t>(count)));
    craft.entry("split.tensors.count", 5, Bytes().put(static_cast<std::int32_t>(tensors)));
    for (auto& tensor : craft.tensors) tensor.name += std::to_string(number);
    return craft;
  }
  void save_all(int count) {
    for (int i = 0; i < count; ++i) save(part(i, count, 3 * count).build(), name(i, count));
  }
  void refused(int opened, int count, const std::vector<std::string>& parts) {
    const std::string path = dir_.file(name(opened, count));
    expect_refused(attempt([&]() -> Result<void> {
                     auto file = GgufFile::open(path);
                     if (!file) return file.error();
                     return {};
                   }),
                   Code::bad_input, parts);
  }
};

TEST_F(Split, OpensByItsFirstPart) {
  save_all(3);
  const auto opened = GgufFile::open(dir_.file(name(0, 3)));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const auto& file = **opened;
  ASSERT_EQ(file.parts().size(), 3U);
  ASSERT_EQ(file.tensors().size(), 9U);
  const GgufTensor* tensor = file.tensor("b2");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->part, 2);
  EXPECT_EQ(tensor->data.data(), file.parts()[2]->bytes().data() + tensor->offset);
  EXPECT_EQ(*file.string("general.architecture"), "llama");
  EXPECT_LT(file.header(1).size(), file.header(0).size());
}

TEST_F(Split, FirstPartMayHoldNoTensors) {
  save_all(2);
  CraftedGguf first = part(0, 2, 3);
  first.tensors.clear();
  first.data.clear();
  save(first.build(), name(0, 2));
  const auto opened = GgufFile::open(dir_.file(name(0, 2)));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_EQ((*opened)->tensors().size(), 3U);
}

TEST_F(Split, OneOfOneIsAFile) {
  save(part(0, 1, 3).build(), "any-name.gguf");
  EXPECT_TRUE(GgufFile::open(dir_.file("any-name.gguf")).has_value());
}

TEST_F(Split, ALaterPartNamesTheFirst) {
  save_all(3);
  refused(1, 3, {name(1, 3), "part 2 of 3", "open its first part", name(0, 3)});
  std::filesystem::remove(dir_.file(name(0, 3)));
  refused(1, 3, {name(0, 3), "which is missing"});
}

TEST_F(Split, AMissingPartIsNamed) {
  save_all(3);
  std::filesystem::remove(dir_.file(name(2, 3)));
  refused(0, 3, {"part 3 of 3", "missing", name(2, 3)});
}

TEST_F(Split, PartsMustBelongTogether) {
  save_all(3);
  save(part(1, 3, 9).build(), name(2, 3));
  refused(0, 3, {name(2, 3), "expected part 3 of 3", "found split.no 1"});
  save(part(2, 4, 9).build(), name(2, 3));
  refused(0, 3, {name(2, 3), "split.count 4"});
  save(CraftedGguf().build(), name(2, 3));
  refused(0, 3, {name(2, 3), "expected part 3 of 3"});
}

TEST_F(Split, TensorsAreCountedAndUnique) {
  save_all(2);
  save(part(0, 2, 7).build(), name(0, 2));
  refused(0, 2, {"split.tensors.count", "7", "hold 6"});
  CraftedGguf second = part(1, 2, 6);
  second.tensors[1].name = "b0";
  save(part(0, 2, 6).build(), name(0, 2));
  save(second.build(), name(1, 2));
  refused(0, 2, {name(1, 2), "tensor 'b0'", name(0, 2)});
}

TEST_F(Split, TheNameMustTellTheParts) {
  save(part(0, 2, 6).build(), "renamed.gguf");
  const auto opened = GgufFile::open(dir_.file("renamed.gguf"));
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find("-00001-of-00002.gguf"), std::string::npos);
}

TEST_F(Split, NumbersAreChecked) {
  CraftedGguf craft = part(5, 3, 9);
  save(craft.build(), name(0, 3));
  refused(0, 3, {"'split.no' is 5", "less than 'split.count', 3"});
  craft = CraftedGguf();
  craft.entry("split.count", 5, Bytes().put<std::int32_t>(-2));
  save(craft.build(), name(0, 3));
  refused(0, 3, {"'split.count'", "-2"});
  craft = CraftedGguf();
  craft.entry("split.count", 2, Bytes().put<std::uint16_t>(3));
  save(craft.build(), name(0, 3));
  refused(0, 3, {"'split.no' is missing"});
}

}  // namespace
}  // namespace knapsack::testing
