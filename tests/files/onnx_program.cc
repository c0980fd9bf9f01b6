// What tests/full/onnx_files.py runs: tells as JSON what is read of an ONNX model, writes one again, writes new ones.
#include <cstdio>
#include <cstring>
#include <iostream>

#include "base/hash.h"
#include "base/json.h"
#include "files/onnx.h"
#include "files/onnx_writer.h"

namespace knapsack {
namespace {

json::value tell(const OnnxTensor& tensor) {
  json::array dims(tensor.dims.begin(), tensor.dims.end());
  return {{"type", onnx_type_name(tensor.type)}, {"dims", std::move(dims)}, {"sha256", sha256_hex(tensor.data)}};
}

json::array tell(const std::vector<std::string>& list) {
  json::array out;
  for (const auto& item : list) out.push_back(json::string(item));
  return out;
}

json::value tell(const std::vector<OnnxValue>& values) {
  json::array out;
  for (const auto& value : values) {
    json::object one{{"name", value.name},
                     {"kind", std::string(onnx_kind_name(value.kind))},
                     {"type", static_cast<int>(value.type)}};
    if (value.shape) {
      json::array dims;
      for (const auto& dim : *value.shape)
        dims.push_back(dim.number ? json::value(*dim.number) : json::value(dim.symbol));
      one["shape"] = std::move(dims);
    }
    out.push_back(std::move(one));
  }
  return out;
}

json::value tell(const OnnxGraph& graph);

json::value tell(const OnnxAttribute& a) {
  switch (a.type) {
    case OnnxAttributeType::f:
      return a.f;
    case OnnxAttributeType::i:
      return a.i;
    case OnnxAttributeType::s:
      return json::string(a.s);
    case OnnxAttributeType::tensor:
      return tell(a.tensors.at(0));
    case OnnxAttributeType::graph:
      return tell(a.graphs.at(0));
    case OnnxAttributeType::floats:
      return json::array(a.floats.begin(), a.floats.end());
    case OnnxAttributeType::ints:
      return json::array(a.ints.begin(), a.ints.end());
    case OnnxAttributeType::strings:
      return tell(a.strings);
    default:
      return json::string(std::string(onnx_attribute_type_name(a.type)));
  }
}

json::value tell(const std::vector<OnnxNode>& nodes) {
  json::array out;
  for (const auto& node : nodes) {
    json::object attributes;
    for (const auto& attribute : node.attributes)
      attributes[attribute.name] = attribute.ref.empty() ? tell(attribute) : json::value({{"ref", attribute.ref}});
    out.push_back({{"name", node.name},
                   {"op_type", node.op_type},
                   {"domain", node.domain},
                   {"inputs", tell(node.inputs)},
                   {"outputs", tell(node.outputs)},
                   {"attributes", std::move(attributes)}});
  }
  return out;
}

json::value tell(const OnnxGraph& graph) {
  json::object initializers;
  for (const auto& tensor : graph.initializers) initializers[tensor.name] = tell(tensor);
  return {{"name", graph.name},
          {"nodes", tell(graph.nodes)},
          {"initializers", std::move(initializers)},
          {"inputs", tell(graph.inputs)},
          {"outputs", tell(graph.outputs)},
          {"values", tell(graph.values)},
          {"sparse", tell(graph.sparse_initializers)}};
}

json::value tell(const OnnxModel& model) {
  json::object opsets;
  for (const auto& [domain, version] : model.opsets) opsets[domain] = version;
  json::object metadata;
  for (const auto& [key, value] : model.metadata) metadata[key] = value;
  json::array functions;
  for (const auto& function : model.functions)
    functions.push_back({{"domain", function.domain},
                         {"name", function.name},
                         {"inputs", tell(function.inputs)},
                         {"outputs", tell(function.outputs)},
                         {"nodes", tell(function.nodes)}});
  return {{"ir_version", model.ir_version},  {"producer", model.producer}, {"opsets", std::move(opsets)},
          {"metadata", std::move(metadata)}, {"graph", tell(model.graph)}, {"functions", std::move(functions)}};
}

template <class T>
OnnxTensor tensor(std::string name, OnnxType type, std::vector<std::int64_t> dims, std::vector<T> values) {
  auto owner = std::make_shared<std::vector<T>>(std::move(values));
  const auto data = std::as_bytes(std::span(*owner));
  return {.name = std::move(name), .type = type, .dims = std::move(dims), .data = data, .owner = std::move(owner)};
}

OnnxModel model_of(std::string name, std::int64_t opset, OnnxType type, OnnxDim rows) {
  OnnxModel model{.ir_version = opset > 17 ? 10 : 8, .producer = "knapsack", .opsets = {{"", opset}}};
  model.graph.name = std::move(name);
  model.graph.inputs = {{.name = "x", .type = type, .shape = {{rows, {.number = 64}}}}};
  model.graph.outputs = {{.name = "y", .type = type, .shape = {{rows, {.number = 32}}}}};
  return model;
}

// W[k, n] = (k - 2 n) / 8, of which each row is made when it is asked for.
Result<OnnxTensor> add_weight(OnnxDataFile& data, const std::string& name) {
  return data.add(name, OnnxType::f32, {64, 32}, [](const OnnxDataFile::Append& append) -> Result<void> {
    std::vector<float> row(32);
    for (int k = 0; k < 64; ++k) {
      for (int n = 0; n < 32; ++n) row[static_cast<std::size_t>(n)] = static_cast<float>(k - 2 * n) / 8;
      TRY_VOID(append(std::as_bytes(std::span(row))));
    }
    return {};
  });
}

// prefill.onnx and decode.onnx share weights.data; int4.onnx has opset 21 and all within; far.onnx's weights begin
// beyond 4 GiB of far.data.
Result<void> write_new(const std::string& folder) {
  TRY(OnnxDataFile data, OnnxDataFile::create(folder + "/weights.data"));
  std::vector<std::pair<std::string, OnnxModel>> models;
  for (const auto& [file, rows] : std::vector<std::pair<std::string, std::int64_t>>{{"prefill", 8}, {"decode", 1}}) {
    OnnxModel model = model_of(file, 17, OnnxType::f32, {.number = rows});
    TRY(OnnxTensor weight, add_weight(data, "layers.0.weight"));
    model.graph.initializers.push_back(std::move(weight));
    std::vector<float> bias(32);
    for (std::size_t n = 0; n < bias.size(); ++n) bias[n] = static_cast<float>(n);
    model.graph.initializers.push_back(tensor("layers.0.bias", OnnxType::f32, {32}, std::move(bias)));
    model.graph.nodes = {{.name = "layers.0/gemm",
                          .op_type = "Gemm",
                          .inputs = {"x", "layers.0.weight", "layers.0.bias"},
                          .outputs = {"g"},
                          .attributes = {onnx_attribute("alpha", 0.5F), onnx_attribute("transB", 0)}},
                         {.name = "layers.0/mean",
                          .op_type = "ReduceMean",
                          .inputs = {"g"},
                          .outputs = {"m"},
                          .attributes = {onnx_attribute("axes", std::vector<std::int64_t>{-1})}},
                         {.name = "layers.0/sub", .op_type = "Sub", .inputs = {"g", "m"}, .outputs = {"y"}}};
    model.metadata = {{"made by", "a test"}};
    models.emplace_back(file, std::move(model));
  }
  TRY_VOID(data.commit());

  // Blocks of 32 along K with a scale each; codes -8 to 7, two a byte.
  OnnxModel int4 = model_of("int4", 21, OnnxType::f32, {.symbol = "n"});
  std::vector<std::uint8_t> codes(64 * 32 / 2);
  for (std::size_t i = 0; i < 64 * 32; ++i)
    codes[i / 2] = static_cast<std::uint8_t>(codes[i / 2] | ((i % 16) << (4 * (i % 2))));
  int4.graph.initializers = {tensor("codes", OnnxType::i4, {64, 32}, std::move(codes)),
                             tensor("scales", OnnxType::f32, {2, 32}, std::vector<float>(64, 0.25F))};
  int4.graph.nodes = {{.name = "dequantize",
                       .op_type = "DequantizeLinear",
                       .inputs = {"codes", "scales"},
                       .outputs = {"w"},
                       .attributes = {onnx_attribute("axis", 0), onnx_attribute("block_size", 32)}},
                      {.name = "matmul", .op_type = "MatMul", .inputs = {"x", "w"}, .outputs = {"y"}}};
  models.emplace_back("int4", std::move(int4));

  TRY(OnnxDataFile far_data,
      OnnxDataFile::create(folder + "/far.data", {.large_alignment = std::uint64_t{1} << 32, .large = 4096}));
  TRY(const OnnxTensor first, far_data.add(tensor("first", OnnxType::f32, {32}, std::vector<float>(32, 1.0F))));
  OnnxModel far = model_of("far", 17, OnnxType::f32, {.symbol = "n"});
  TRY(OnnxTensor weight, add_weight(far_data, "weight"));
  TRY_VOID(far_data.commit());
  far.graph.initializers = {first, std::move(weight)};
  far.graph.nodes = {{.op_type = "Gemm", .inputs = {"x", "weight", "first"}, .outputs = {"y"}}};
  models.emplace_back("far", std::move(far));

  for (const auto& [name, model] : models) TRY_VOID(write_onnx(fmt::format("{}/{}.onnx", folder, name), model));
  return {};
}

Result<void> run(std::span<char*> words) {
  const auto is = [&](std::string_view command, std::size_t count) {
    return words.size() == count + 2 && std::string_view(words[1]) == command;
  };
  if (is("tell", 1)) {
    TRY(const OnnxModel model, read_onnx(words[2]));
    std::cout << json::serialize(tell(model)) << "\n";
    return {};
  }
  if (is("rewrite", 2)) {
    TRY(const OnnxModel model, read_onnx(words[2]));
    return write_onnx(words[3], model);
  }
  if (is("write", 1)) return write_new(words[2]);
  return usage_error("onnx_program tell FILE | rewrite FILE FILE | write FOLDER");
}

}  // namespace
}  // namespace knapsack

int main(int argc, char** argv) {
  const auto done = knapsack::run({argv, static_cast<std::size_t>(argc)});
  if (done) return 0;
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return static_cast<int>(done.error().code);
}
