// Broken and hostile ONNX files: each is refused with its code and a message that says where, in little memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include "files/craft.h"
#include "files/onnx.h"
#include "files/onnx_parse.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

class BrokenOnnx : public ::testing::Test {
 protected:
  Attempt open(const std::string& bytes) {
    write_file(path_, bytes);
    return attempt([this]() -> Result<void> {
      auto model = read_onnx(path_);
      if (!model) return model.error();
      return {};
    });
  }
  void refused(const std::string& bytes, std::vector<std::string> parts, Code code = Code::bad_input) {
    parts.push_back("broken.onnx: ");
    expect_refused(open(bytes), code, parts);
  }
  void refused(const CraftedOnnx& craft, const std::vector<std::string>& parts, Code code = Code::bad_input) {
    refused(craft.build(), parts, code);
  }
  // A model with this tensor in the place of w.
  void refused_tensor(const Proto& tensor, const std::vector<std::string>& parts, Code code = Code::bad_input) {
    CraftedOnnx craft;
    craft.tensor = tensor;
    refused(craft, parts, code);
  }
  void expect_opens(const std::string& bytes) {
    const Attempt result = open(bytes);
    EXPECT_TRUE(result.opened) << result.message;
  }
  static Proto external(const std::vector<std::pair<std::string, std::string>>& entries, std::uint64_t elements = 2) {
    Proto tensor;
    tensor.number(1, elements).number(2, 1).bytes(8, "w");
    for (const auto& [key, value] : entries) tensor.message(13, Proto().bytes(1, key).bytes(2, value));
    return tensor.number(14, 1);
  }
  TempDir dir_;
  std::string path_ = dir_.file("broken.onnx");
};

TEST_F(BrokenOnnx, TheCraftedOneIsWhole) { expect_opens(CraftedOnnx().build()); }

TEST_F(BrokenOnnx, OtherKindsOfFile) {
  refused("", {"not an ONNX model", "an empty file"});
  refused("<!DOCTYPE html><html></html>", {"not an ONNX model", "an HTML page"});
  refused("version https://git-lfs.github.com/spec/v1\n", {"a Git LFS pointer"});
  refused(CraftedGguf().build(), {"a GGUF file"});
  refused(std::string(4096, '\0'), {"only zero bytes"});
  refused("\x08\x08", {"without a graph"});
  refused(Proto().number(1, 1).bytes(2, "meta graph").text(), {"without a graph"});
}

TEST_F(BrokenOnnx, CutAtEveryByte) {
  // No prefix is a model, for the operator sets stand last; but the one that lacks only bytes of those.
  const std::string whole = CraftedOnnx().build();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    const auto model = parse_onnx(std::as_bytes(std::span(part)), "cut.onnx");
    ASSERT_FALSE(model.has_value()) << size;
    EXPECT_EQ(model.error().code, Code::bad_input) << size;
    EXPECT_TRUE(model.error().message.starts_with("cut.onnx: ")) << model.error().message;
  }
  refused(whole.substr(0, 40), {"byte 2: field 7 of the model has", "only 36 follow", "incomplete download"});
}

TEST_F(BrokenOnnx, WireFormat) {
  const std::string head = Proto().number(1, 8).text();
  refused(head + std::string("\x02\x00", 2), {"byte 2: field 0 of the model", "1 to 536870911"});
  refused(head + "\x3b", {"byte 2: field 7 of the model has the wire type 3"});
  refused(head + "\x3c", {"wire type 4"});
  refused(head + "\x3e", {"wire type 6"});
  refused(head + std::string(11, '\xff'), {"byte 2", "the number of a field"});
  refused(head + "\x28" + std::string(10, '\xff') + "\x01",
          {"byte 2: field 5 of the model is a number of more than 64 bits"});
  refused(head + Proto().varint(7 << 3 | 2).varint(UINT64_MAX).text(),
          {"has 18446744073709551615 bytes", "only 0 follow"});
  refused(head + Proto().number(7, 1).text(), {"byte 2: the graph is a varint; expected a length and bytes"});
  refused(head + "\x15\x01", {"field 2 of the model runs past the end"});
  refused(Proto().bytes(1, "x").text(), {"ir_version is a length and bytes; expected a varint"});
  CraftedOnnx craft;
  craft.node.fixed32(3, 1);
  refused(craft, {"the name of a node is 4 bytes; expected a length and bytes"});
  CraftedOnnx name;
  name.node.bytes(1, "\xff\xfe");
  refused(name, {"an input of a node is not UTF-8"});
}

TEST_F(BrokenOnnx, TheModelsOwnFields) {
  const std::string graph = Proto().message(7, Proto().bytes(2, "g")).text();
  const std::string opset = Proto().message(8, Proto().number(2, 17)).text();
  expect_opens(Proto().number(1, 8).text() + graph + opset);
  refused(graph + opset, {"ir_version is 0; expected 1 to 14"});
  refused(Proto().number(1, 15).text() + graph + opset, {"IR version 15", "up to 14"}, Code::unsupported);
  refused(Proto().number(1, UINT64_MAX).text() + graph + opset, {"ir_version is -1"});
  refused(Proto().number(1, 8).text() + graph, {"no operator set"});
  refused(Proto().number(1, 8).text() + graph + opset + graph, {"a second graph"});
  const std::string other = Proto().message(8, Proto().bytes(1, "ai.onnx").number(2, 18)).text();
  refused(Proto().number(1, 8).text() + graph + opset + other, {"version 17 and as version 18"});
  CraftedOnnx function;
  function.more_model.message(25, Proto().bytes(10, "local"));
  refused(function, {"a function without a name"});
}

TEST_F(BrokenOnnx, NamesThatAreMissingOrTwice) {
  CraftedOnnx craft;
  craft.node = Proto().bytes(3, "nameless");
  refused(craft, {"node 'nameless' has no operator"});
  CraftedOnnx tensor;
  tensor.more_graph.message(5, tensor.tensor);
  refused(tensor, {"two initializers of a graph have the name 'w'"});
  CraftedOnnx input;
  input.more_graph.message(11, Proto().bytes(1, "x"));
  refused(input, {"two inputs of a graph have the name 'x'"});
  CraftedOnnx value;
  value.more_graph.message(13, Proto());
  refused(value, {"a value_info without a name"});
  refused_tensor(Proto().number(1, 1).number(2, 2).bytes(9, "x"), {"an initializer without a name"});
}

TEST_F(BrokenOnnx, Dimensions) {
  const auto with = [](std::vector<std::uint64_t> dims, std::uint64_t type = 1) {
    Proto tensor;
    for (const auto dim : dims) tensor.number(1, dim);
    return tensor.number(2, type).bytes(8, "w").bytes(9, std::string(8, 'x'));
  };
  refused_tensor(with({2, UINT64_MAX}), {"dimension 1 of tensor 'w' is -1; expected at least 0"});
  for (const auto& dims : std::vector<std::vector<std::uint64_t>>{{1ULL << 32, 1ULL << 32},
                                                                  {1ULL << 62},
                                                                  {INT64_MAX, INT64_MAX},
                                                                  {3, 0x5555555555555556ULL},
                                                                  {1ULL << 16, 1ULL << 16, 1ULL << 16, 1ULL << 16}})
    refused_tensor(with(dims), {"tensor 'w'", "more than 2^63 bytes"});
  refused_tensor(with({1ULL << 40}), {"raw_data has 8 bytes", "(float) need 4398046511104"});
  refused_tensor(with({1}), {"raw_data has 8 bytes", "need 4"});
  refused_tensor(with({0}), {"raw_data has 8 bytes", "need 0"});
  refused_tensor(with({17}, 22), {"raw_data has 8 bytes", "(int4) need 9"});
  refused_tensor(with(std::vector<std::uint64_t>(65, 1)), {"tensor 'w' has 65 dimensions; at most 64"});
  CraftedOnnx value;
  value.more_graph.message(13, CraftedOnnx::value("v", Proto().message(1, Proto().number(1, UINT64_MAX - 1))));
  refused(value, {"a dimension is -2"});
  CraftedOnnx both;
  both.more_graph.message(13, CraftedOnnx::value("v", Proto().message(1, Proto().number(1, 2).bytes(2, "n"))));
  refused(both, {"a dimension is 2 and 'n' at once"});
}

TEST_F(BrokenOnnx, ElementTypes) {
  const auto with = [](std::uint64_t type) {
    return Proto().number(1, 2).number(2, type).bytes(8, "w").bytes(9, std::string(8, 'x'));
  };
  for (const auto& [type, name] : std::vector<std::pair<std::uint64_t, std::string>>{
           {0, "undefined"}, {8, "string"}, {14, "type 14"}, {23, "type 23"}, {28, "type 28"}, {255, "type 255"}})
    refused_tensor(with(type), {"tensor 'w' has the element type " + name}, Code::unsupported);
  refused_tensor(with(256), {"element type 256 is none"});
  refused_tensor(with(UINT64_MAX), {"element type -1 is none"});
}

TEST_F(BrokenOnnx, WhereDataStands) {
  const auto with = [](std::uint64_t type, std::uint64_t elements = 2) {
    return Proto().number(1, elements).number(2, type).bytes(8, "w");
  };
  refused_tensor(with(1), {"tensor 'w' has no data", "need 8 bytes"});
  refused_tensor(with(1).bytes(7, "\1\2"), {"tensor 'w' has int64_data", "float stand in float_data"});
  refused_tensor(with(7).bytes(5, "\1\2"), {"int32_data", "int64 stand in int64_data"});
  refused_tensor(with(1).bytes(9, std::string(8, 'x')).bytes(4, std::string(8, 'x')),
                 {"both in raw_data and in float_data"});
  refused_tensor(with(1).bytes(4, std::string(7, 'x')),
                 {"float_data of tensor 'w' has 7 bytes; expected a multiple of 4"});
  refused_tensor(with(1).bytes(4, std::string(4, 'x')), {"float_data has 1 numbers", "need 2"});
  refused_tensor(with(1).number(4, 1).number(4, 1), {"float_data is a varint; expected 4 bytes"});
  refused_tensor(with(7).bytes(7, "\1\2\3"), {"int64_data has 3 numbers", "need 2"});
  refused_tensor(with(7).bytes(7, "\1\2\x80"), {"int64_data does not end in whole numbers"});
  refused_tensor(with(7, 1).bytes(7, std::string(10, '\xff') + "\1"),
                 {"int64_data does not end in whole numbers of at most 64 bits"});
  refused_tensor(with(7, 1ULL << 50).bytes(7, "\1\2\3"), {"int64_data has 3 numbers"});
  refused_tensor(with(3).number(5, 1).number(5, 128), {"has the element 128; int8 has -128 to 127"});
  refused_tensor(with(2).number(5, 1).number(5, UINT64_MAX), {"has the element -1; uint8 has 0 to 255"});
  refused_tensor(with(9).number(5, 1).number(5, 2), {"has the element 2; bool has 0 to 1"});
  refused_tensor(with(10).number(5, 1).number(5, 65536), {"has the element 65536; float16"});
  refused_tensor(with(12).number(11, 1).number(11, 1ULL << 32), {"has the element 4294967296; uint32"});
  refused_tensor(with(1).number(14, 2), {"data_location 2"});
  refused_tensor(with(1).bytes(3, "").bytes(9, std::string(8, 'x')), {"in segments"}, Code::unsupported);
}

TEST_F(BrokenOnnx, Attributes) {
  const auto with = [&](const Proto& attribute, const std::vector<std::string>& parts, Code code = Code::bad_input) {
    CraftedOnnx craft;
    craft.node.message(5, attribute);
    refused(craft, parts, code);
  };
  with(Proto().number(3, 1).number(20, 2), {"an attribute without a name"});
  with(Proto().bytes(1, "a"), {"attribute 'a' has no type"});
  with(Proto().bytes(1, "a").number(3, 1).fixed32(2, 1), {"attribute 'a' has no type"});
  with(Proto().bytes(1, "a").number(20, 15), {"unknown type 15"});
  with(Proto().bytes(1, "a").number(20, 2).fixed32(2, 1), {"attribute 'a' is of type int, but a value of another"});
  with(Proto().bytes(1, "a").number(20, 4), {"attribute 'a' is of type tensor; expected one, found 0"});
  with(Proto().bytes(1, "a").number(20, 5).bytes(6, "").bytes(6, ""), {"of type graph; expected one, found 2"});
  with(Proto().bytes(1, "a").number(20, 6).bytes(7, "123"), {"packed into 3 bytes"});
  with(Proto().bytes(1, "a").number(20, 7).bytes(8, "\x80"), {"does not end in whole numbers"});
  with(Proto().bytes(1, "a").number(20, 4).message(5, Proto().number(1, 3).number(2, 1)), {"has no data"});
}

TEST_F(BrokenOnnx, GraphsWithinGraphs) {
  const auto nested = [](int depth) {
    Proto graph = Proto().bytes(2, "innermost");
    for (int i = 0; i < depth; ++i) {
      const Proto attribute = Proto().bytes(1, "body").message(6, graph).number(20, 5);
      graph = Proto().message(1, Proto().bytes(4, "Loop").message(5, attribute));
    }
    return Proto().number(1, 8).message(7, graph).message(8, Proto().number(2, 17)).text();
  };
  expect_opens(nested(16));
  refused(nested(17), {"more than 16 deep"}, Code::unsupported);
  refused(nested(300), {"more than 16 deep"}, Code::unsupported);
}

TEST_F(BrokenOnnx, FewBytesMuchMemory) {
  // What takes two bytes in the file and a hundred in memory ends at the limit.
  Proto node = Proto().bytes(4, "A");
  for (int i = 0; i < 100'000; ++i) node.raw(std::string("\x0a\0", 2));
  const std::string bytes =
      Proto().number(1, 8).message(7, Proto().message(1, node)).message(8, Proto().number(2, 17)).text();
  const auto span = std::as_bytes(std::span(bytes));
  for (const bool limited : {false, true}) {
    const Attempt result = attempt([&]() -> Result<void> {
      auto model = limited ? parse_onnx(span, "m.onnx", nullptr, 1 << 20) : parse_onnx(span, "m.onnx");
      if (!model) return model.error();
      return {};
    });
    if (limited) {
      expect_refused(result, Code::unsupported, {"more than 1 MiB"});
    } else {
      EXPECT_TRUE(result.opened) << result.message;
    }
  }
  // A sparse file: 2^30 zeros are as many int64, eight times the memory.
  const Proto head = Proto().number(1, 1ULL << 30).number(2, 7).bytes(8, "w").varint(7 << 3 | 2).varint(1ULL << 30);
  const std::uint64_t tensor = head.text().size() + (1ULL << 30);
  const Proto graph_head = Proto().varint(5 << 3 | 2).varint(tensor);
  const std::string start = Proto()
                                .number(1, 8)
                                .message(8, Proto().number(2, 17))
                                .varint(7 << 3 | 2)
                                .varint(graph_head.text().size() + tensor)
                                .raw(graph_head.text())
                                .raw(head.text())
                                .text();
  open(start);
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(start.size() + (1ULL << 30))), 0);
  const Attempt result = attempt([this]() -> Result<void> {
    auto model = read_onnx(path_);
    if (!model) return model.error();
    return {};
  });
  EXPECT_FALSE(result.opened);
  EXPECT_EQ(result.code, Code::unsupported);
  EXPECT_NE(result.message.find("more than 1024 MiB"), std::string::npos) << result.message;
}

TEST_F(BrokenOnnx, ExternalFiles) {
  write_file(dir_.file("w.data"), std::string(12, 'x'));
  std::filesystem::create_directory(dir_.file("sub"));
  write_file(dir_.file("sub/w.data"), std::string(12, 'x'));
  const auto with = [&](const std::vector<std::pair<std::string, std::string>>& entries, std::uint64_t elements = 2) {
    CraftedOnnx craft;
    craft.tensor = external(entries, elements);
    return craft;
  };
  expect_opens(with({{"location", "w.data"}}).build());
  expect_opens(with({{"location", "./sub/w.data"}, {"offset", "4"}, {"length", "8"}, {"checksum", "?"}}).build());
  refused(with({{"location", "w.data"}, {"offset", "5"}}),
          {"tensor 'w': 8 bytes from byte 5", "past its end at byte 12"});
  refused(with({{"location", "w.data"}, {"offset", "18446744073709551615"}}), {"from byte 18446744073709551615"});
  refused(with({{"location", "w.data"}, {"offset", "18446744073709551616"}}),
          {"as its offset; expected a whole number"});
  for (const std::string offset : {"-1", "1x", "", " 1", "0x4"})
    refused(with({{"location", "w.data"}, {"offset", offset}}), {"as its offset; expected a whole number"});
  refused(with({{"location", "w.data"}, {"length", "4"}}),
          {"tensor 'w' has 4 bytes in the external file 'w.data'", "need 8"});
  refused(with({{"location", "w.data"}}, 1ULL << 40), {"4398046511104 bytes from byte 0"});
  refused(with({{"location", "w.data"}}, UINT64_MAX), {"dimension 0 of tensor 'w' is -1"});
  refused(with({{"offset", "0"}}), {"names no file"});
  refused(with({{"location", "absent.data"}}), {"absent.data", "No such file", "beside the model"});
  refused(with({{"location", "sub"}}), {"a directory"});
  refused(with({{"location", "/etc/passwd"}}), {"an absolute path"});
  refused(with({{"location", "../w.data"}}), {"leads out of the model's folder"});
  refused(with({{"location", "sub/../../w.data"}}), {"leads out of the model's folder"});
  refused(with({{"location", "sub\\w.data"}}), {"no path with '/'"});
  refused(with({{"location", std::string("w.data\0x", 8)}}), {"no path with '/'"});
  CraftedOnnx both;
  both.tensor = external({{"location", "w.data"}}).bytes(9, std::string(8, 'x'));
  refused(both, {"both in the model and in an external file"});
  // In the tensor of an attribute, too.
  CraftedOnnx attribute;
  attribute.node.message(5, Proto().bytes(1, "value").number(20, 4).message(5, external({{"location", "absent"}})));
  refused(attribute, {"absent", "No such file"});
}

TEST_F(BrokenOnnx, LinksThatLeadOut) {
  CraftedOnnx craft;
  craft.tensor = external({{"location", "w.data"}});
  const TempDir elsewhere;
  write_file(elsewhere.file("blob"), std::string(12, 'x'));
  std::filesystem::create_symlink(elsewhere.file("blob"), dir_.file("w.data"));
  refused(craft, {"tensor 'w' lies in 'w.data'", "a link to", "expected a file in the model's folder"});
  // A link within the folder is none that leads out.
  std::filesystem::remove(dir_.file("w.data"));
  write_file(dir_.file("real.data"), std::string(12, 'x'));
  std::filesystem::create_symlink("real.data", dir_.file("w.data"));
  expect_opens(craft.build());
  // Hugging Face's cache: the model and its data are links into one folder.
  write_file(elsewhere.file("model"), craft.build());
  std::filesystem::remove(dir_.file("w.data"));
  std::filesystem::create_symlink(elsewhere.file("blob"), dir_.file("w.data"));
  std::filesystem::create_symlink(elsewhere.file("model"), dir_.file("linked.onnx"));
  const auto linked = read_onnx(dir_.file("linked.onnx"));
  EXPECT_TRUE(linked.has_value()) << linked.error().message;
  // Another folder is none of the model's.
  std::filesystem::remove(dir_.file("w.data"));
  std::filesystem::create_symlink("/etc/passwd", dir_.file("w.data"));
  const auto out = read_onnx(dir_.file("linked.onnx"));
  ASSERT_FALSE(out.has_value());
  EXPECT_NE(out.error().message.find("a link to '/etc/passwd'"), std::string::npos);
}

}  // namespace
}  // namespace knapsack::testing
