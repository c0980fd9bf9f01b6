// Broken GGUF files: each is refused with its code and a message that says where, in little memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include "files/craft.h"
#include "files/gguf.h"
#include "files/gguf_parse.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

constexpr std::uint64_t huge = std::uint64_t{1} << 62;

class BrokenGguf : public ::testing::Test {
 protected:
  Attempt open(const std::string& bytes, const std::string& name = "broken.gguf") {
    path_ = dir_.file(name);
    write_file(path_, bytes);
    return attempt([this]() -> Result<void> {
      auto file = GgufFile::open(path_);
      if (!file) return file.error();
      return {};
    });
  }
  void bad(const std::string& bytes, std::vector<std::string> parts) {
    parts.push_back("broken.gguf: ");
    expect_refused(open(bytes), Code::bad_input, parts);
  }
  void bad(const CraftedGguf& craft, const std::vector<std::string>& parts) { bad(craft.build(), parts); }
  void refused_as_unsupported(const std::string& bytes, std::vector<std::string> parts) {
    parts.push_back("broken.gguf: ");
    expect_refused(open(bytes), Code::unsupported, parts);
  }
  TempDir dir_;
  std::string path_;
};

TEST_F(BrokenGguf, NumberOfDimensions) {
  for (const std::uint32_t dims : {0U, 5U, 0xffffffffU}) {
    CraftedGguf craft;
    craft.tensors[1].n_dims = dims;
    bad(craft, {"tensor 'b'", std::to_string(dims) + " dimensions", "expected 1 to 4", "byte "});
  }
}

TEST_F(BrokenGguf, DimensionsThatWrap) {
  const std::vector<std::vector<std::uint64_t>> shapes = {
      {1ULL << 32, 1ULL << 32},
      {1ULL << 31, 1ULL << 31, 4},
      {1ULL << 63},
      {UINT64_MAX},
      {UINT64_MAX, UINT64_MAX},
      {4, 1ULL << 62},
      {1ULL << 62, 2},
      {3, 0x5555555555555556ULL},
      {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16},
  };
  for (const auto& dims : shapes) {
    CraftedGguf craft;
    craft.tensors[1].dims = dims;
    bad(craft, {"tensor 'b'", "2^63"});
  }
  // The elements fit 63 bits, their bytes do not fit 64.
  CraftedGguf craft;
  craft.tensors[1].dims = {1ULL << 62};
  craft.tensors[1].type = 28;
  bad(craft, {"tensor 'b'", "past the end"});
}

TEST_F(BrokenGguf, EmptyDimension) {
  CraftedGguf craft;
  craft.tensors[1].dims = {4, 0};
  bad(craft, {"dimension 1 of tensor 'b' is 0", "byte "});
  craft.tensors[1].dims = {0, 1ULL << 62, 1ULL << 62};
  bad(craft, {"dimension 0 of tensor 'b' is 0"});
}

TEST_F(BrokenGguf, StringsLongerThanTheFile) {
  for (const std::uint64_t length : {huge, UINT64_MAX, std::uint64_t{1000}}) {
    CraftedGguf value;
    value.entry("general.name", 8, Bytes().u64(length));
    bad(value, {"the value of 'general.name'", std::to_string(length), "byte "});
    CraftedGguf element;
    element.entry("list", 9, Bytes().u32(8).u64(1).u64(length));
    bad(element, {"a string in the value of 'list'", std::to_string(length)});
  }
  bad(Bytes().raw("GGUF").u32(3).u64(0).u64(1).u64(huge).raw(std::string(64, 'k')).text(),
      {"byte 24", "a metadata key", "at most 65535"});
  CraftedGguf name;
  name.tensors[0].name = std::string(300, 'n');
  bad(name, {"the name of a tensor has 300 bytes", "at most 255"});
  CraftedGguf key;
  key.entry(std::string(70'000, 'k'), 4, Bytes().u32(1));
  bad(key, {"a metadata key has 70000 bytes"});
}

TEST_F(BrokenGguf, CountsLargerThanTheFile) {
  for (const std::uint64_t count : {huge, UINT64_MAX, std::uint64_t{1} << 40, std::uint64_t{5000}}) {
    CraftedGguf entries;
    entries.n_entries = count;
    bad(entries, {"byte 16", std::to_string(count) + " metadata entries", "hold at most"});
    CraftedGguf tensors;
    tensors.n_tensors = count;
    bad(tensors, {"byte 8", std::to_string(count) + " tensors", "hold at most"});
    for (std::uint32_t type = 0; type < 13; ++type) {
      if (type == 9) continue;
      CraftedGguf array;
      array.entry("list", 9, Bytes().u32(type).u64(count));
      bad(array, {std::to_string(count) + " elements of the value of 'list'", "hold at most"});
    }
  }
  // More entries announced than there are: the table of tensors is read as entries, and something in it must fail.
  CraftedGguf craft;
  craft.n_entries = craft.entries.size() + 1;
  bad(craft, {"byte "});
  CraftedGguf more;
  more.n_tensors = more.tensors.size() + 1;
  bad(more, {"byte "});
}

TEST_F(BrokenGguf, FewBytesMuchMemory) {
  // A sparse file of 1 GiB holds 2^27 empty strings, or 2^26 empty keys; neither may cost memory.
  for (const std::uint32_t type : {8U, 9U}) {
    CraftedGguf craft;
    craft.tensors.clear();
    craft.data.clear();
    craft.entry("list", 9, Bytes().u32(type).u64(1ULL << 26));
    open(craft.build());
    ASSERT_EQ(truncate(path_.c_str(), off_t{1} << 30), 0);
    const Attempt result = attempt([this]() -> Result<void> {
      auto file = GgufFile::open(path_);
      if (!file) return file.error();
      return {};
    });
    expect_refused(result, type == 8 ? Code::bad_input : Code::unsupported, {"'list'"});
  }
  CraftedGguf craft;
  craft.n_entries = 1ULL << 26;
  craft.tensors.clear();
  craft.data.clear();
  open(craft.build());
  ASSERT_EQ(truncate(path_.c_str(), off_t{1} << 30), 0);
  expect_refused(attempt([this]() -> Result<void> {
                   auto file = GgufFile::open(path_);
                   if (!file) return file.error();
                   return {};
                 }),
                 Code::bad_input, {"a metadata key is empty"});
}

TEST_F(BrokenGguf, Alignment) {
  for (const std::uint32_t alignment : {0U, 3U, 5U, 6U, 7U, 12U, 100U, 0xffffffffU}) {
    CraftedGguf craft;
    craft.entry("general.alignment", 4, Bytes().u32(alignment));
    bad(craft, {"'general.alignment' is " + std::to_string(alignment), "power of two or a multiple of 8"});
  }
  // 2^30 in a file of 160 bytes, with and without a tensor.
  for (const bool tensor : {false, true}) {
    CraftedGguf craft;
    craft.entries.clear();
    craft.tensors.resize(tensor ? 1 : 0);
    craft.data.clear();
    craft.entry("general.alignment", 4, Bytes().u32(1U << 30));
    std::string bytes = craft.build();
    bytes.resize(160);
    bad(bytes, {"'general.alignment' is 1073741824", "160 bytes"});
  }
  CraftedGguf craft;
  craft.entry("general.alignment", 8, Bytes().string("32"));
  bad(craft, {"'general.alignment'", "UINT32"});
  CraftedGguf negative;
  negative.entry("general.alignment", 5, Bytes().put<std::int32_t>(-32));
  bad(negative, {"'general.alignment'", "UINT32"});
}

TEST_F(BrokenGguf, UnknownTypes) {
  for (const std::uint32_t type : {13U, 14U, 255U, 0xffffffffU}) {
    CraftedGguf value;
    value.entry("odd", type, Bytes().u64(0));
    bad(value, {"the value of 'odd'", "unknown type " + std::to_string(type), "byte "});
    CraftedGguf element;
    element.entry("odd", 9, Bytes().u32(type).u64(1).u64(0));
    bad(element, {"the value of 'odd'", "array of the unknown type " + std::to_string(type)});
    element.entries.back().second = Bytes().u32(9).u32(type).u64(0).text();
    bad(element, {"array of the unknown type"});
  }
  CraftedGguf nested;
  nested.entry("odd", 9, Bytes().u32(9).u64(1).u32(4).u64(1).u32(5));
  refused_as_unsupported(nested.build(), {"'odd'", "array of arrays"});
  CraftedGguf flag;
  flag.entry("flag", 7, Bytes().u8(2));
  bad(flag, {"'flag'", "BOOL of 2"});
}

TEST_F(BrokenGguf, Duplicates) {
  CraftedGguf key;
  key.entry("llama.block_count", 4, Bytes().u32(8));
  bad(key, {"duplicate metadata key 'llama.block_count'", "byte "});
  CraftedGguf tensor;
  tensor.tensors[2].name = "a";
  bad(tensor, {"duplicate tensor 'a'", "byte "});
}

TEST_F(BrokenGguf, Names) {
  CraftedGguf key;
  key.entry("", 4, Bytes().u32(8));
  bad(key, {"a metadata key is empty", "byte "});
  CraftedGguf tensor;
  tensor.tensors[0].name = "";
  bad(tensor, {"the name of a tensor is empty"});
  tensor.tensors[0].name = "a\xff\x1b[2J";
  bad(tensor, {"not UTF-8", "'a\\xff\\x1b[2J'"});
  key.entries.back().first = "k\xc0\xaf";
  bad(key, {"not UTF-8"});
}

TEST_F(BrokenGguf, TensorsOutsideTheFile) {
  CraftedGguf cut;
  cut.data.resize(cut.data.size() - 1);
  bad(cut, {"tensor 'c'", "past the end of the file",
            "all tensors need " + std::to_string(CraftedGguf().build().size()) + " bytes"});
  for (const std::uint64_t offset : {std::uint64_t{1} << 40, huge, UINT64_MAX - 31, std::uint64_t{256}}) {
    CraftedGguf craft;
    craft.tensors[2].offset = offset;
    bad(craft, {"tensor 'c'", "past the end of the file"});
  }
  CraftedGguf none;
  none.data.clear();
  bad(none, {"tensor 'a'", "past the end of the file"});
}

TEST_F(BrokenGguf, OverlappingTensors) {
  CraftedGguf same;
  same.tensors[1].offset = 0;
  bad(same, {"'a'", "'b'", "overlap"});
  CraftedGguf inside;
  inside.tensors[2].offset = 64;
  bad(inside, {"'b'", "'c'", "overlap"});
}

TEST_F(BrokenGguf, UnalignedTensors) {
  for (const std::size_t index : {0U, 1U, 2U}) {
    CraftedGguf craft;
    craft.tensors[index].offset += 4;
    craft.data.append(64, '\0');
    bad(craft, {"tensor '" + craft.tensors[index].name + "'", "not a multiple of the alignment 32"});
  }
}

TEST_F(BrokenGguf, RowsOfPartialBlocks) {
  CraftedGguf craft;
  craft.tensors[2].dims = {16, 4};
  bad(craft, {"tensor 'c'", "16 elements", "32", "Q8_0"});
  craft.tensors[2].dims = {128};
  craft.tensors[2].type = 12;
  bad(craft, {"128 elements", "256", "Q4_K"});
}

TEST_F(BrokenGguf, TensorTypes) {
  const std::vector<std::pair<std::uint32_t, std::string>> types = {{4, "Q4_2"},
                                                                    {5, "Q4_3"},
                                                                    {31, "Q4_0_4_4"},
                                                                    {32, "Q4_0_4_8"},
                                                                    {33, "Q4_0_8_8"},
                                                                    {36, "IQ4_NL_4_4"},
                                                                    {37, "IQ4_NL_4_8"},
                                                                    {38, "IQ4_NL_8_8"},
                                                                    {9, "Q8_1"},
                                                                    {15, "Q8_K"},
                                                                    {1000, "unknown type 1000"},
                                                                    {0xffffffffU, "unknown type 4294967295"}};
  for (const auto& [type, name] : types) {
    CraftedGguf craft;
    craft.tensors[2].type = type;
    refused_as_unsupported(craft.build(), {"tensor 'c'", name, "byte "});
  }
}

TEST_F(BrokenGguf, Versions) {
  CraftedGguf craft;
  craft.version = 1;
  refused_as_unsupported(craft.build(), {"version 1", "2 and 3", "byte 4"});
  craft.version = 4;
  refused_as_unsupported(craft.build(), {"version 4"});
  craft.version = 0x03000000;
  refused_as_unsupported(craft.build(), {"big-endian", "little-endian"});
  craft.version = 0x02000000;
  refused_as_unsupported(craft.build(), {"big-endian"});
  craft.version = 0;
  bad(craft, {"version 0"});
}

TEST_F(BrokenGguf, WhatIsNoGguf) {
  bad("", {"empty file"});
  bad("<!DOCTYPE html>\n<html><head>", {"HTML page"});
  bad("\n <HTML lang=en>", {"HTML page"});
  bad("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 98362432\n",
      {"Git LFS pointer", "git lfs pull"});
  bad("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", {"XML"});
  bad(std::string("PK\x03\x04\x14\x00", 6), {"zip archive"});
  bad(std::string("\x80\x02}q\x00", 5), {"Python pickle"});
  bad(crafted_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), {"safetensors file"});
  bad("{\"model_type\": \"llama\"}", {"JSON"});
  bad("tjgg\x03", {"older than GGUF"});
  bad("\x1f\x8b\x08", {"gzip"});
  bad(std::string(5000, '\0'), {"zero bytes"});
  bad("GGU", {"expected 'GGUF'", "'GGU'"});
  bad("\x1b]0;owned\x07", {"'\\x1b]0;'"});
  bad("GGUF", {"ends at byte 4", "the version"});
}

TEST_F(BrokenGguf, CutAnywhere) {
  const std::string whole = CraftedGguf().build();
  ASSERT_TRUE(open(whole).opened);
  // Every prefix, which includes any 64 points.
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto part = parse_gguf(std::as_bytes(std::span(whole)).first(size), "cut.gguf");
    ASSERT_FALSE(part.has_value()) << size;
    EXPECT_EQ(part.error().code, Code::bad_input);
    EXPECT_TRUE(part.error().message.starts_with("cut.gguf: ")) << part.error().message;
  }
  for (int i = 0; i < 64; ++i) {
    const std::size_t size = whole.size() * static_cast<std::size_t>(i) / 64;
    const Attempt cut = open(whole.substr(0, size));
    expect_refused(cut, Code::bad_input, {"broken.gguf: "});
  }
}

TEST_F(BrokenGguf, EveryByteFlipped) {
  const std::string whole = CraftedGguf().build();
  const std::size_t header = whole.size() - CraftedGguf().data.size();
  for (std::size_t at = 0; at < header; ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const auto part = parse_gguf(std::as_bytes(std::span(bytes)), "flip.gguf");
      EXPECT_TRUE(part.has_value() || part.error().message.starts_with("flip.gguf: "));
    }
  }
}

TEST_F(BrokenGguf, WhatIsNoFile) {
  const auto message = [](const std::string& path) {
    const auto file = GgufFile::open(path);
    EXPECT_FALSE(file.has_value());
    return file ? "" : file.error().message;
  };
  EXPECT_NE(message(dir_.path().string()).find("directory"), std::string::npos);
  EXPECT_NE(message(dir_.file("absent.gguf")).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace knapsack::testing
