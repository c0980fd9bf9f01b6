// ONNX models: what PyPI onnx wrote is read as onnx itself reads it (tests/golden/onnx, made by
// tools/golden/onnx_files.py); what we write is read again as it was; weights in one file beside several models.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/json.h"
#include "files/craft.h"
#include "files/onnx.h"
#include "files/onnx_parse.h"
#include "files/onnx_writer.h"
#include "files/sniff.h"
#include "support/support.h"

namespace knapsack::testing {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return out;
}
std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

OnnxModel read(const std::string& path) {
  auto model = read_onnx(path);
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(model).value();
}

// Two models say the same, tensors' data included.
void expect_equal(const OnnxModel& a, const OnnxModel& b) {
  const auto encoded_a = encode_onnx(a, "a");
  const auto encoded_b = encode_onnx(b, "b");
  ASSERT_TRUE(encoded_a.has_value() && encoded_b.has_value());
  EXPECT_EQ(*encoded_a, *encoded_b);
}

void expect_golden(const std::string& name) {
  const OnnxModel model = read(data_path("golden/onnx/" + name + ".onnx"));
  EXPECT_EQ(model.producer, name);
  EXPECT_EQ(model.ir_version, 10);
  EXPECT_EQ(model.opsets, (OnnxOpsets{{"", 21}}));
  const std::string expected_path = data_path("golden/onnx/" + name + ".json");
  const auto expected = parse_json_object(read_file(expected_path), expected_path);
  ASSERT_TRUE(expected.has_value());
  ASSERT_EQ(model.graph.initializers.size(), expected->size());
  for (const auto& tensor : model.graph.initializers) {
    SCOPED_TRACE(tensor.name);
    const auto& truth = expected->at(tensor.name).as_object();
    EXPECT_EQ(onnx_type_name(tensor.type), truth.at("type").as_string());
    std::vector<std::int64_t> dims;
    for (const auto& dim : truth.at("dims").as_array()) dims.push_back(dim.as_int64());
    EXPECT_EQ(tensor.dims, dims);
    EXPECT_EQ(hex(tensor.data), truth.at("hex").as_string());
    EXPECT_EQ(tensor.data.size(), *onnx_bytes(tensor.type, tensor.dims));
  }
}

TEST(Onnx, EveryTypedFieldAsOnnxReadsIt) { expect_golden("typed"); }

TEST(Onnx, ExternalDataAsOnnxReadsIt) {
  expect_golden("external");
  const OnnxModel model = read(data_path("golden/onnx/external.onnx"));
  for (const auto& tensor : model.graph.initializers) {
    ASSERT_TRUE(tensor.place.has_value());
    EXPECT_EQ(tensor.place->location, "external.data");
    EXPECT_NE(tensor.owner, nullptr);
  }
}

TEST(Onnx, DataOutlivesTheModel) {
  OnnxTensor typed, raw;
  {
    OnnxModel model = read(data_path("golden/onnx/typed.onnx"));
    typed = model.graph.initializers[0];
    raw = model.graph.initializers[4];
  }
  EXPECT_EQ(raw.name, "float_raw");
  EXPECT_EQ(hex(typed.data), hex(raw.data));
}

TEST(Onnx, Structure) {
  const OnnxModel model = read(data_path("golden/onnx/structure.onnx"));
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.producer, "structure");
  EXPECT_EQ(model.producer_version, "1.2");
  EXPECT_EQ(model.opsets, (OnnxOpsets{{"", 17}, {"com.example", 2}, {"local", 1}}));
  EXPECT_EQ(model.metadata, (std::vector<std::pair<std::string, std::string>>{{"author", "a name"}, {"empty", ""}}));
  const OnnxGraph& graph = model.graph;
  EXPECT_EQ(graph.name, "structure");
  EXPECT_EQ(graph.sparse_initializers, std::vector<std::string>{"sparse"});

  ASSERT_EQ(graph.nodes.size(), 4U);
  const OnnxNode& custom = graph.nodes[0];
  EXPECT_EQ(custom.name, "layers.0/custom");
  EXPECT_EQ(custom.op_type, "Custom");
  EXPECT_EQ(custom.domain, "com.example");
  EXPECT_EQ(custom.inputs, (std::vector<std::string>{"x", "", "w"}));
  EXPECT_EQ(custom.outputs, (std::vector<std::string>{"c", ""}));
  EXPECT_EQ(custom.attributes.size(), 7U);
  EXPECT_EQ(custom.attribute("a_float")->f, 0.5F);
  EXPECT_EQ(custom.attribute("an_int")->i, -7);
  EXPECT_EQ(custom.attribute("a_string")->s, "text");
  EXPECT_EQ(custom.attribute("floats")->floats, (std::vector<float>{1, -2}));
  EXPECT_EQ(custom.attribute("ints")->ints, (std::vector<std::int64_t>{3, -4, 5}));
  EXPECT_EQ(custom.attribute("strings")->strings, (std::vector<std::string>{"a", "", "中"}));
  ASSERT_EQ(custom.attribute("a_tensor")->tensors.size(), 1U);
  EXPECT_EQ(hex(custom.attribute("a_tensor")->tensors[0].data), "09000000f7ffffff");
  EXPECT_EQ(custom.attribute("absent"), nullptr);

  const OnnxNode& choice = graph.nodes[1];
  EXPECT_EQ(choice.attribute("then_branch")->type, OnnxAttributeType::graph);
  ASSERT_EQ(choice.attribute("else_branch")->graphs.size(), 1U);
  EXPECT_EQ(choice.attribute("else_branch")->graphs[0].name, "else");
  EXPECT_EQ(choice.attribute("else_branch")->graphs[0].nodes[0].op_type, "Identity");
  EXPECT_EQ(graph.nodes[3].domain, "");  // ai.onnx

  ASSERT_EQ(graph.inputs.size(), 6U);
  EXPECT_EQ(graph.inputs[0].type, OnnxType::f32);
  ASSERT_EQ(graph.inputs[0].shape->size(), 2U);
  EXPECT_EQ(graph.inputs[0].shape->at(0).symbol, "batch");
  EXPECT_FALSE(graph.inputs[0].shape->at(0).number.has_value());
  EXPECT_EQ(graph.inputs[0].shape->at(1).number, 4);
  EXPECT_TRUE(graph.inputs[1].shape->empty());
  EXPECT_EQ(graph.inputs[2].shape->at(0).symbol, "");
  EXPECT_FALSE(graph.inputs[2].shape->at(0).number.has_value());
  EXPECT_FALSE(graph.inputs[3].shape.has_value());
  EXPECT_EQ(graph.inputs[3].type, OnnxType::f16);
  EXPECT_EQ(graph.inputs[4].kind, OnnxKind::sequence);
  EXPECT_EQ(graph.values.at(0).name, "c");

  ASSERT_EQ(model.functions.size(), 1U);
  const OnnxFunction& function = model.functions[0];
  EXPECT_EQ(function.domain, "local");
  EXPECT_EQ(function.name, "Twice");
  EXPECT_EQ(function.inputs, std::vector<std::string>{"a"});
  EXPECT_EQ(function.attributes, std::vector<std::string>{"factor"});
  EXPECT_EQ(function.opsets, (OnnxOpsets{{"", 17}, {"com.example", 2}}));
  EXPECT_EQ(function.nodes.at(0).attribute("factor")->ref, "factor");
}

TEST(Onnx, WrittenAndReadAgain) {
  for (const std::string name : {"typed", "external", "structure"}) {
    SCOPED_TRACE(name);
    OnnxModel model = read(data_path("golden/onnx/" + name + ".onnx"));
    model.graph.sparse_initializers.clear();
    std::erase_if(model.graph.inputs, [](const OnnxValue& value) { return value.kind != OnnxKind::tensor; });
    const TempDir dir;
    ASSERT_TRUE(write_onnx(dir.file("m.onnx"), model).has_value());
    if (name == "external") write_file(dir.file("external.data"), read_file(data_path("golden/onnx/external.data")));
    expect_equal(model, read(dir.file("m.onnx")));
  }
}

TEST(Onnx, TypesAndSizes) {
  EXPECT_EQ(onnx_bytes(OnnxType::f32, {}), 4U);
  const auto bytes = [](OnnxType type, std::vector<std::int64_t> dims) { return onnx_bytes(type, dims); };
  EXPECT_EQ(bytes(OnnxType::i4, {3, 3}), 5U);
  EXPECT_EQ(bytes(OnnxType::u4, {}), 1U);
  EXPECT_EQ(bytes(OnnxType::bf16, {7}), 14U);
  EXPECT_EQ(bytes(OnnxType::f64, {2, 0, INT64_MAX}), 0U);
  EXPECT_EQ(bytes(OnnxType::i8, {INT64_MAX}), static_cast<std::uint64_t>(INT64_MAX));
  EXPECT_EQ(bytes(OnnxType::i64, {INT64_MAX / 4}), std::nullopt);
  EXPECT_EQ(bytes(OnnxType::i8, {1LL << 32, 1LL << 32}), std::nullopt);
  EXPECT_EQ(bytes(OnnxType::f32, {-1}), std::nullopt);
  EXPECT_EQ(bytes(OnnxType::string, {1}), std::nullopt);
  EXPECT_EQ(onnx_type_name(OnnxType::f32), "float");
  EXPECT_EQ(onnx_type_name(static_cast<OnnxType>(27)), "type 27");
}

TEST(Onnx, NumbersOneByOneAndPacked) {
  // Floats unpacked, and packed in two pieces; dims packed; a number of int32 with and without its sign's upper half.
  const std::string one("\0\0\x80\x3f", 4);
  for (const int way : {0, 1, 2}) {
    CraftedOnnx craft;
    craft.tensor = Proto().bytes(1, Proto().varint(1).varint(2).text()).number(2, 1).bytes(8, "w");
    if (way == 0) craft.tensor.fixed32(4, 1).fixed32(4, 1);
    if (way == 1) craft.tensor.bytes(4, one).bytes(4, one);
    if (way == 2) craft.tensor.bytes(4, one + one);
    const std::string file = craft.build();
    const auto model = parse_onnx(as_bytes(file), "m");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const OnnxTensor& tensor = model->graph.initializers[0];
    EXPECT_EQ(tensor.dims, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(hex(tensor.data), "0000803f0000803f");
    const auto* at = reinterpret_cast<const char*>(tensor.data.data());
    EXPECT_EQ(at >= file.data() && at < file.data() + file.size(), way == 2);  // what can stay in place does
  }
  CraftedOnnx craft;
  craft.tensor =
      Proto().number(1, 3).number(2, 3).bytes(8, "w").number(5, 1).number(5, UINT64_MAX).number(5, 0xffffffff);
  const std::string file = craft.build();
  const auto model = parse_onnx(as_bytes(file), "m");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(hex(model->graph.initializers[0].data), "01ffff");
}

TEST(Onnx, FieldsThatAreNotKnownAreSkipped) {
  CraftedOnnx craft;
  craft.tensor.bytes(1000, "new");
  craft.more_graph.number(500, 1).fixed32(501, 1).fixed64(502, 1).bytes(503, "new");
  craft.more_model.bytes(99, "new");
  const std::string file = craft.build();
  const auto model = parse_onnx(as_bytes(file), "m");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->graph.nodes.size(), 1U);
}

TEST(Onnx, MinusOneIsAnUnknownDimension) {
  CraftedOnnx craft;
  craft.more_graph.message(13, CraftedOnnx::value("v", Proto().message(1, Proto().number(1, UINT64_MAX))));
  const std::string file = craft.build();
  const auto model = parse_onnx(as_bytes(file), "m");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_FALSE(model->graph.values.at(0).shape->at(0).number.has_value());
}

TEST(Onnx, OldModelsHaveAttributesWithoutType) {
  CraftedOnnx craft;
  craft.node.message(5, Proto().bytes(1, "axes").number(8, 1).number(8, 2));
  const std::string file = craft.build();
  const auto model = parse_onnx(as_bytes(file), "m");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->graph.nodes[0].attribute("axes")->type, OnnxAttributeType::ints);
}

TEST(Onnx, Recognised) {
  for (const std::string name : {"typed", "external", "structure"}) {
    const std::string file = read_file(data_path("golden/onnx/" + name + ".onnx"));
    EXPECT_TRUE(looks_like_onnx(as_bytes(file))) << name;
    EXPECT_EQ(guess_content(as_bytes(file)), "an ONNX model") << name;
    EXPECT_TRUE(looks_like_onnx(as_bytes(file).first(file.size() / 2))) << name;
  }
  const std::string crafted = CraftedOnnx().build();
  EXPECT_TRUE(looks_like_onnx(as_bytes(crafted)));
  // Other messages of protobuf: TensorFlow's SavedModel, Core ML, SentencePiece; no graph; a graph of other fields.
  for (const std::string& other :
       {Proto().number(1, 1).bytes(2, "meta graph").text(), Proto().number(1, 8).bytes(2, "x").bytes(502, "x").text(),
        Proto().bytes(1, "<unk>").bytes(1, "<s>").text(), Proto().number(1, 8).bytes(2, "pytorch").text(),
        Proto().number(1, 8).bytes(7, Proto().bytes(1, "a").bytes(9, "b").text()).text(),
        Proto().number(1, 8).bytes(7, "").text(), Proto().bytes(7, Proto().bytes(1, "a").text()).text(),
        std::string("\0\0\0\0", 4), std::string("GGUF"), std::string("{\"a\": 1}")})
    EXPECT_FALSE(looks_like_onnx(as_bytes(other))) << hex(as_bytes(other));
}

OnnxModel add_model(std::vector<OnnxTensor> weights) {
  OnnxModel model{.ir_version = 8, .producer = "knapsack", .opsets = {{"", 17}}};
  model.graph.name = "sum";
  const std::vector<OnnxDim> shape = {{.symbol = "n"}, {.number = weights.at(0).dims.back()}};
  model.graph.inputs.push_back({.name = "x", .type = weights[0].type, .shape = shape});
  std::string sum = "x";
  for (const auto& weight : weights) {
    model.graph.nodes.push_back({.name = "add_" + weight.name, .op_type = "Add", .inputs = {sum, weight.name}});
    sum = "sum_" + weight.name;
    model.graph.nodes.back().outputs = {sum};
  }
  model.graph.outputs.push_back({.name = sum, .type = weights[0].type, .shape = shape});
  model.graph.initializers = std::move(weights);
  return model;
}

std::function<Result<void>(const OnnxDataFile::Append&)> rows(int count, int value, std::size_t row_bytes) {
  return [=](const OnnxDataFile::Append& append) -> Result<void> {
    const std::vector<std::byte> row(row_bytes, static_cast<std::byte>(value));
    for (int i = 0; i < count; ++i) TRY_VOID(append(row));
    return {};
  };
}

TEST(OnnxWriter, SameModelSameBytes) {
  const OnnxModel model = read(data_path("golden/onnx/typed.onnx"));
  const TempDir dir;
  ASSERT_TRUE(write_onnx(dir.file("a.onnx"), model).has_value());
  ASSERT_TRUE(write_onnx(dir.file("b.onnx"), read(dir.file("a.onnx"))).has_value());
  EXPECT_EQ(read_file(dir.file("a.onnx")), read_file(dir.file("b.onnx")));
}

TEST(OnnxWriter, OneDataFileForTwoModels) {
  const TempDir dir;
  auto data = OnnxDataFile::create(dir.file("weights.bin"));
  ASSERT_TRUE(data.has_value()) << data.error().message;
  const auto small = data->add("small", OnnxType::f32, {3}, rows(1, 1, 12));
  const auto odd = data->add("odd", OnnxType::i4, {5}, rows(1, 2, 3));
  const auto large = data->add("large", OnnxType::f16, {64, 1024}, rows(64, 3, 2048));
  const auto again =
      data->add("large", OnnxType::f16, {64, 1024}, [](const auto&) -> Result<void> { return bad_input("called"); });
  const auto last = data->add("last", OnnxType::f32, {1}, rows(1, 4, 4));
  ASSERT_TRUE(small && odd && large && again && last);
  EXPECT_EQ(small->place->offset, 0U);
  EXPECT_EQ(odd->place->offset, 64U);
  EXPECT_EQ(large->place->offset, 4096U);
  EXPECT_EQ(again->place->offset, 4096U);
  EXPECT_EQ(last->place->offset, 4096U + 64U * 2048U);
  EXPECT_FALSE(std::filesystem::exists(dir.file("weights.bin")));
  ASSERT_TRUE(data->commit().has_value());
  ASSERT_TRUE(write_onnx(dir.file("prefill.onnx"), add_model({*small, *last})).has_value());
  ASSERT_TRUE(write_onnx(dir.file("decode.onnx"), add_model({*small, *large})).has_value());

  const OnnxModel prefill = read(dir.file("prefill.onnx")), decode = read(dir.file("decode.onnx"));
  EXPECT_EQ(hex(prefill.graph.initializers[0].data), std::string("010101010101010101010101"));
  EXPECT_EQ(hex(prefill.graph.initializers[1].data), "04040404");
  EXPECT_EQ(decode.graph.initializers[1].data.size(), 64U * 2048U);
  for (const std::byte byte : decode.graph.initializers[1].data) ASSERT_EQ(byte, std::byte{3});
  EXPECT_EQ(decode.graph.initializers[1].place->location, "weights.bin");
  EXPECT_EQ(std::filesystem::file_size(dir.file("weights.bin")), 4096U + 64U * 2048U + 4U);
}

TEST(OnnxWriter, LargeInitializersMoveOut) {
  const OnnxModel before = read(data_path("golden/onnx/typed.onnx"));
  OnnxModel model = before;
  const TempDir dir;
  auto data = OnnxDataFile::create(dir.file("w"));
  ASSERT_TRUE(data.has_value());
  ASSERT_TRUE(move_initializers(model, *data, 20).has_value());
  ASSERT_TRUE(data->commit().has_value());
  ASSERT_TRUE(write_onnx(dir.file("m.onnx"), model).has_value());
  const OnnxModel after = read(dir.file("m.onnx"));
  std::size_t moved = 0;
  for (std::size_t i = 0; i < after.graph.initializers.size(); ++i) {
    const OnnxTensor& tensor = after.graph.initializers[i];
    EXPECT_EQ(hex(tensor.data), hex(before.graph.initializers[i].data)) << tensor.name;
    EXPECT_EQ(tensor.place.has_value(), tensor.data.size() >= 20) << tensor.name;
    moved += tensor.place ? 1 : 0;
  }
  EXPECT_GT(moved, 5U);
}

TEST(OnnxWriter, BeyondTwoGiB) {
  // Pages of 4 GiB put the second and third tensor there; between them the file is a hole.
  const TempDir dir;
  auto data = OnnxDataFile::create(dir.file("w"), {.large_alignment = std::uint64_t{1} << 32, .large = 1 << 10});
  ASSERT_TRUE(data.has_value());
  std::vector<OnnxTensor> tensors;
  for (const int i : {1, 2, 3}) {
    const auto tensor = data->add(fmt::format("t{}", i), OnnxType::u8, {1024}, rows(1, i, 1024));
    ASSERT_TRUE(tensor.has_value()) << tensor.error().message;
    tensors.push_back(*tensor);
  }
  ASSERT_TRUE(data->commit().has_value());
  ASSERT_TRUE(write_onnx(dir.file("m.onnx"), add_model(tensors)).has_value());
  EXPECT_EQ(std::filesystem::file_size(dir.file("w")), (std::uint64_t{2} << 32) + 1024);
  const OnnxModel model = read(dir.file("m.onnx"));
  ASSERT_EQ(model.graph.initializers.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const OnnxTensor& tensor = model.graph.initializers[i];
    EXPECT_EQ(tensor.place->offset, std::uint64_t{i} << 32);
    EXPECT_EQ(tensor.data.back(), static_cast<std::byte>(i + 1));
  }
}

TEST(OnnxWriter, AFailingTensorLeavesNothing) {
  const TempDir dir;
  {
    auto data = OnnxDataFile::create(dir.file("w"));
    ASSERT_TRUE(data.has_value());
    const auto tensor = data->add("a", OnnxType::f32, {4}, [](const auto& append) -> Result<void> {
      TRY_VOID(append(std::vector<std::byte>(4)));
      return bad_input("a: no");
    });
    ASSERT_FALSE(tensor.has_value());
    EXPECT_EQ(tensor.error().message, "a: no");
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  const auto nowhere = write_onnx(dir.file("no/m.onnx"), OnnxModel{.ir_version = 8, .opsets = {{"", 17}}});
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_EQ(nowhere.error().code, Code::usage);
}

TEST(OnnxWriter, TooLargeForOneFile) {
  const OnnxTensor tensor{.name = "w",
                          .type = OnnxType::u8,
                          .dims = {std::int64_t{1} << 31},
                          .data = {static_cast<const std::byte*>(nullptr), std::size_t{1} << 31}};
  const auto encoded = encode_onnx(add_model({tensor}), "m.onnx");
  ASSERT_FALSE(encoded.has_value());
  EXPECT_EQ(encoded.error().code, Code::unsupported);
  EXPECT_NE(encoded.error().message.find("external"), std::string::npos);
}

TEST(OnnxWriterDeathTest, OurOwnMistakes) {
  const TempDir dir;
  auto data = OnnxDataFile::create(dir.file("w"));
  ASSERT_TRUE(data.has_value());
  ASSERT_TRUE(data->add("a", OnnxType::f32, {1}, rows(1, 1, 4)).has_value());
  EXPECT_DEATH((void)data->add("a", OnnxType::f32, {2}, rows(1, 1, 8)), "does not hold");
  EXPECT_DEATH((void)data->add("b", OnnxType::f32, {2}, rows(1, 1, 4)), "does not hold");
  OnnxModel model;
  model.graph.sparse_initializers.push_back("s");
  EXPECT_DEATH((void)encode_onnx(model, "m"), "does not hold");
}

}  // namespace
}  // namespace knapsack::testing
