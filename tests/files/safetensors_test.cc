// safetensors as they should be and broken: one file, shards with an index, the names tools use.
#include "files/safetensors.h"

#include <gtest/gtest.h>

#include "files/craft.h"
#include "files/safetensors_parse.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, std::uint64_t begin,
                  std::uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin, end);
}

class Safetensors : public ::testing::Test {
 protected:
  Attempt open(const std::string& bytes) {
    write_file(dir_.file("m.safetensors"), bytes);
    return attempt([this]() -> Result<void> {
      auto file = SafetensorsFiles::open_file(dir_.file("m.safetensors"));
      if (!file) return file.error();
      return {};
    });
  }
  void bad(const std::string& bytes, std::vector<std::string> parts, Code code = Code::bad_input) {
    parts.emplace_back("m.safetensors");
    expect_refused(open(bytes), code, parts);
  }
  // A header of these entries with `size` bytes of data.
  void bad(const std::string& entries, std::size_t size, const std::vector<std::string>& parts,
           Code code = Code::bad_input) {
    bad(crafted_safetensors("{" + entries + "}", std::string(size, '\0')), parts, code);
  }
  TempDir dir_;
};

TEST_F(Safetensors, ReadsTensors) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + entry("b", "BF16", "[2,3]", 16, 28) + "," +
                             entry("a", "F32", "[4]", 0, 16) + "," + entry("s", "I64", "[]", 28, 36) + "}     ";
  write_file(dir_.file("m.safetensors"), crafted_safetensors(header, std::string(36, '\0')));
  const auto opened = SafetensorsFiles::open_file(dir_.file("m.safetensors"));
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  const auto& file = **opened;
  ASSERT_EQ(file.tensors().size(), 3U);
  const SafeTensor* b = file.tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::BF16);
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(b->data.size(), 12U);
  EXPECT_EQ(b->offset, 8 + header.size() + 16);
  EXPECT_TRUE(file.tensor("s")->shape.empty());
  EXPECT_EQ(file.tensor("__metadata__"), nullptr);
  EXPECT_EQ(file.header(0).size(), 8 + header.size());
}

TEST_F(Safetensors, EveryTypeKeepsItsBits) {
  struct Row {
    const char* stored;
    DType dtype;
    int bytes;
  };
  for (const Row& row :
       {Row{"F64", DType::F64, 8}, Row{"F32", DType::F32, 4}, Row{"F16", DType::F16, 2}, Row{"BF16", DType::BF16, 2},
        Row{"I64", DType::I64, 8}, Row{"U64", DType::I64, 8}, Row{"I32", DType::I32, 4}, Row{"U32", DType::I32, 4},
        Row{"I16", DType::I16, 2}, Row{"U16", DType::I16, 2}, Row{"I8", DType::I8, 1}, Row{"U8", DType::I8, 1},
        Row{"BOOL", DType::I8, 1}, Row{"F8_E4M3", DType::F8_E4M3, 1}}) {
    const auto size = static_cast<std::uint64_t>(3 * row.bytes);
    const std::string text =
        crafted_safetensors("{" + entry("a", row.stored, "[3]", 0, size) + "}", std::string(size, 'x'));
    const auto part = parse_safetensors(std::as_bytes(std::span(text)), "m");
    ASSERT_TRUE(part.has_value()) << part.error().message;
    EXPECT_EQ(part->tensors[0].dtype, row.dtype) << row.stored;
    EXPECT_EQ(part->tensors[0].stored, row.stored);
  }
  for (const char* type : {"F8_E5M2", "F8_E8M0", "F4", "C64"})
    bad(entry("a", type, "[2]", 0, 2), 2, {"tensor 'a'", type, "not read by this version"}, Code::unsupported);
}

TEST_F(Safetensors, EmptyHeader) {
  EXPECT_TRUE(open(crafted_safetensors("{}", "")).opened);
  bad(crafted_safetensors("{}", "x"), {"1 bytes after the last tensor"});
}

TEST_F(Safetensors, HeaderLength) {
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 60, UINT64_MAX - 3,
                                     UINT64_MAX, std::uint64_t{100'000'001}, std::uint64_t{3}})
    bad(Bytes().u64(length).raw("{}").text(), {"byte 0", std::to_string(length) + " bytes", "expected 2 to 2"});
  for (std::size_t size = 0; size < 8; ++size) bad(std::string(size, '\1'), {"at least 8"});
}

TEST_F(Safetensors, HeaderIsJson) {
  bad(crafted_safetensors("no json here", ""), {"not JSON", "at byte 0", "header of"});
  bad(crafted_safetensors("[1,2]", ""), {"expected an object", "an array"});
  bad(crafted_safetensors("{\"a\":", ""), {"not JSON", "ends too early"});
  bad(crafted_safetensors("\"text\"", ""), {"expected an object", "a string"});
  bad(crafted_safetensors("{\"a\xff\":{}}", ""), {"not JSON"});
  bad(crafted_safetensors(std::string(100'000, '['), ""), {"nested deeper"});
  bad(crafted_safetensors(std::string(64, '\0'), ""), {"not JSON"});
}

TEST_F(Safetensors, FieldsOfATensor) {
  bad("\"a\":5", 0, {"tensor 'a'", "must be an object"});
  bad(R"("a":{"shape":[1],"data_offsets":[0,4]})", 4, {"tensor 'a'", "'dtype' is missing"});
  bad(R"("a":{"dtype":"F32","data_offsets":[0,4]})", 4, {"tensor 'a'", "'shape' is missing"});
  bad(R"("a":{"dtype":"F32","shape":[1]})", 4, {"tensor 'a'", "'data_offsets' is missing"});
  bad(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})", 4, {"unknown field 'x'"});
  bad(R"("a":{"dtype":7,"shape":[1],"data_offsets":[0,4]})", 4, {"'dtype' must be a string", "7"});
  bad(R"("a":{"dtype":"F32","shape":"1","data_offsets":[0,4]})", 4, {"'shape' must be an array"});
  bad(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0]})", 4, {"[begin, end]", "1 numbers"});
  bad(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})", 4, {"3 numbers"});
  bad(R"("a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4, {"shape", "1.5"});
  bad(R"("a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]})", 4, {"shape: expected integers"});
  bad(R"("a":{"dtype":"F32","shape":[null],"data_offsets":[0,4]})", 4, {"shape: expected integers", "null"});
  bad(R"("a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]})", 4, {"data_offsets: expected integers", "-4"});
  bad(R"("__metadata__":[])", 0, {"__metadata__", "must be an object"});
  bad(R"("__metadata__":{"a":1})", 0, {"__metadata__", "must be a string"});
  bad(R"("":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, {"without a name"});
}

TEST_F(Safetensors, Shapes) {
  bad(entry("a", "F32", "[-1]", 0, 4), 4, {"tensor 'a'", "shape", "-1"});
  bad(entry("a", "F32", "[0,4]", 0, 0), 0, {"tensor 'a'", "[0,4]", "no elements"});
  bad(entry("a", "F32", "[4294967296,4294967296]", 0, 4), 4, {"more than 2^63 bytes"});
  bad(entry("a", "F32", "[4611686018427387904]", 0, 0), 0, {"more than 2^63 bytes"});
  bad(entry("a", "U8", "[9223372036854775808]", 0, 0), 0, {"more than 2^63 bytes"});
  bad(entry("a", "F32", "[18446744073709551616]", 0, 4), 4, {"shape: expected integers"});
  bad(entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4), 4, {"9 dimensions", "at most 8"});
  bad(entry("a", "F32", "[2,3]", 0, 20), 20, {"span 20 bytes", "[2,3]", "F32", "needs 24"});
  bad(entry("a", "F32", "[2,3]", 0, 28), 28, {"span 28 bytes", "needs 24"});
  bad(entry("a", "F32", "[]", 0, 8), 8, {"span 8 bytes", "needs 4"});
}

TEST_F(Safetensors, Types) {
  bad(entry("a", "F33", "[1]", 0, 4), 4, {"tensor 'a'", "unknown dtype 'F33'", "known: F64, F32", "F8_E4M3"});
  bad(entry("a", "f32", "[1]", 0, 4), 4, {"unknown dtype 'f32'"});
}

TEST_F(Safetensors, Spans) {
  bad(entry("a", "F32", "[1]", 4, 0), 4, {"tensor 'a'", "[4, 0]", "begins after its end"});
  bad(entry("a", "F32", "[2]", 0, 8), 4, {"tensor 'a'", "past the 4 bytes of data"});
  bad(entry("a", "F32", "[1]", 18446744073709551612U, 18446744073709551615U), 4, {"tensor 'a'"});
  bad(entry("a", "F32", "[1]", 4, 8), 8, {"a hole of 4 bytes", "tensor 'a'"});
  bad(entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F32", "[1]", 8, 12), 12, {"a hole of 4 bytes", "tensor 'b'"});
  bad(entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[2]", 4, 12), 12, {"'a'", "'b'", "overlap"});
  bad(entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[2]", 0, 8), 8, {"overlap"});
  bad(entry("a", "F32", "[1]", 0, 4), 7, {"3 bytes after the last tensor"});
}

TEST_F(Safetensors, DuplicateNames) {
  bad(entry("a", "F32", "[1]", 0, 4) + "," + entry("a", "F32", "[1]", 4, 8), 8, {"duplicate key 'a'"});
  bad(R"("a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, {"duplicate key 'dtype'"});
}

TEST_F(Safetensors, WhatIsNoSafetensors) {
  bad("", {"empty file"});
  bad("<!doctype html><html></html>", {"HTML page"});
  bad("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", {"Git LFS pointer"});
  bad(CraftedGguf().build(), {"GGUF file"});
  bad(std::string("PK\x03\x04\x00\x00\x00\x00\x00\x00", 10), {"zip archive"});
}

TEST_F(Safetensors, CutAnywhere) {
  const std::string whole = crafted_safetensors(
      "{" + entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F16", "[2]", 4, 8) + "}", std::string(8, '\0'));
  ASSERT_TRUE(open(whole).opened);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto part = parse_safetensors(std::as_bytes(std::span(whole)).first(size), "cut.safetensors");
    ASSERT_FALSE(part.has_value()) << size;
    EXPECT_EQ(part.error().code, Code::bad_input);
    EXPECT_NE(part.error().message.find("cut.safetensors"), std::string::npos);
  }
}

// Folders.

class Folder : public Safetensors {
 protected:
  // A shard of F32 [1] tensors.
  void shard(const std::string& name, const std::vector<std::string>& tensors) {
    std::string header;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (i > 0) header += ',';
      header += entry(tensors[i], "F32", "[1]", 4 * i, 4 * i + 4);
    }
    write_file(dir_.file(name), crafted_safetensors("{" + header + "}", std::string(4 * tensors.size(), '\0')));
  }
  void index(const std::string& map, const std::string& name = "model.safetensors.index.json") {
    write_file(dir_.file(name), R"({"metadata":{"total_size":8},"weight_map":)" + map + "}");
  }
  std::shared_ptr<const SafetensorsFiles> open_folder() {
    warnings_.clear();
    auto opened = SafetensorsFiles::open_folder(dir_.path().string(), warnings_);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return opened ? *opened : nullptr;
  }
  void refused(const std::vector<std::string>& parts, Code code = Code::bad_input) {
    expect_refused(attempt([this]() -> Result<void> {
                     std::vector<std::string> warnings;
                     auto opened = SafetensorsFiles::open_folder(dir_.path().string(), warnings);
                     if (!opened) return opened.error();
                     return {};
                   }),
                   code, parts);
  }
  std::vector<std::string> warnings_;
};

TEST_F(Folder, SingleFile) {
  shard("model.safetensors", {"a", "b"});
  const auto files = open_folder();
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->tensors().size(), 2U);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Folder, Shards) {
  shard("one.safetensors", {"a"});
  shard("two.safetensors", {"b", "c"});
  index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})");
  const auto files = open_folder();
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->parts().size(), 2U);
  EXPECT_EQ(files->tensor("c")->part, 1);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Folder, TheIndexWinsOverAStrayFile) {
  shard("one.safetensors", {"a"});
  shard("model.safetensors", {"a", "z"});
  index(R"({"a":"one.safetensors"})");
  const auto files = open_folder();
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->tensors().size(), 1U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("model.safetensors: ignored"), std::string::npos);
  // Even a broken one.
  write_file(dir_.file("model.safetensors"), "junk");
  EXPECT_NE(open_folder(), nullptr);
  // But an index may name it.
  shard("model.safetensors", {"a"});
  index(R"({"a":"model.safetensors"})");
  EXPECT_NE(open_folder(), nullptr);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Folder, TensorsTheIndexDoesNotName) {
  shard("one.safetensors", {"a", "x"});
  shard("two.safetensors", {"b", "a"});
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  const auto files = open_folder();
  ASSERT_NE(files, nullptr);
  EXPECT_EQ(files->tensors().size(), 3U);
  EXPECT_EQ(files->tensor("a")->part, 0);
  EXPECT_NE(files->tensor("x"), nullptr);
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_NE(warnings_[0].find("does not name: 'x'"), std::string::npos);
  EXPECT_NE(warnings_[1].find("in another shard: 'a'"), std::string::npos);
  shard("two.safetensors", {"b", "x"});
  refused({"two.safetensors", "tensor 'x'", "one.safetensors"});
}

TEST_F(Folder, MissingShardOrTensor) {
  shard("one.safetensors", {"a"});
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  refused({"model.safetensors.index.json", "shard 'two.safetensors' is missing", "'b'"});
  shard("two.safetensors", {"c"});
  refused({"two.safetensors", "'b'", "does not hold it"});
}

TEST_F(Folder, AnIndexStaysInItsFolder) {
  for (const char* name :
       {"../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", ".", "", "a\\\\b", "x\\u0000"}) {
    index(std::string(R"({"a":")") + name + "\"}");
    refused({"model.safetensors.index.json", "'a'", "plain file name"});
  }
}

TEST_F(Folder, BrokenIndexes) {
  index(R"({"a":5})");
  refused({"index.json", "'a'", "must be the name of a file", "an integer"});
  index(R"(["a"])");
  refused({"'weight_map' must be an object"});
  index("{}");
  refused({"'weight_map' names no tensor"});
  index(R"({"a":"x","a":"y"})");
  refused({"duplicate key 'a'"});
  write_file(dir_.file("model.safetensors.index.json"), "{}");
  refused({"'weight_map' is missing"});
  write_file(dir_.file("model.safetensors.index.json"), "");
  refused({"not JSON"});
  write_file(dir_.file("model.safetensors.index.json"), "{\"weight_map\":");
  refused({"not JSON"});
}

TEST_F(Folder, BrokenShard) {
  write_file(dir_.file("one.safetensors"), "version https://git-lfs.github.com/spec/v1\n");
  index(R"({"a":"one.safetensors"})");
  refused({"one.safetensors", "Git LFS pointer"});
}

TEST_F(Folder, NamesOfOtherTools) {
  shard("gptq_model-4bit-128g.safetensors", {"a"});
  EXPECT_NE(open_folder(), nullptr);
  shard("adapter_model.safetensors", {"z"});
  EXPECT_NE(open_folder(), nullptr);
  shard("other.safetensors", {"b"});
  refused({"without an index", "'gptq_model-4bit-128g.safetensors'", "'other.safetensors'"});
  index(R"({"a":"gptq_model-4bit-128g.safetensors"})", "gptq_model-4bit-128g.safetensors.index.json");
  EXPECT_EQ(open_folder()->tensors().size(), 1U);
}

TEST_F(Folder, NothingToOpen) {
  refused({"expected model.safetensors", "found neither"});
  write_file(dir_.file("pytorch_model.bin"), "x");
  refused({"pytorch_model.bin", "pickle"}, Code::unsupported);
  shard("adapter_model.safetensors", {"z"});
  refused({"LoRA adapter"}, Code::unsupported);
}

}  // namespace
}  // namespace knapsack::testing
