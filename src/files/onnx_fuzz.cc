// Any bytes as an ONNX model: where they parse, every tensor's data is touched, and what can be written is the same
// when written and read again.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "files/onnx_parse.h"
#include "files/onnx_writer.h"

namespace knapsack {
namespace {

constexpr std::uint64_t memory_limit = std::uint64_t{64} << 20;

void touch(const OnnxTensor& tensor) {
  CHECK(tensor.place || tensor.data.size() == onnx_bytes(tensor.type, tensor.dims));
  if (tensor.data.empty()) return;
  volatile std::byte end = tensor.data.front();
  end = tensor.data.back();
  (void)end;
}

// Without what cannot be written.
void strip(std::vector<OnnxValue>& values) {
  std::erase_if(values, [](const auto& v) { return v.kind != OnnxKind::tensor && v.kind != OnnxKind::none; });
}
void strip(OnnxGraph& graph);
void strip(std::vector<OnnxAttribute>& attributes) {
  std::erase_if(attributes, [](const auto& a) { return a.type > OnnxAttributeType::graphs && a.ref.empty(); });
  for (auto& attribute : attributes) {
    for (const auto& tensor : attribute.tensors) touch(tensor);
    for (auto& graph : attribute.graphs) strip(graph);
  }
}
void strip(std::vector<OnnxNode>& nodes) {
  for (auto& node : nodes) {
    CHECK(node.attribute("") == nullptr && !node.op_type.empty());
    strip(node.attributes);
  }
}
void strip(OnnxGraph& graph) {
  for (const auto& tensor : graph.initializers) touch(tensor);
  graph.sparse_initializers.clear();
  strip(graph.nodes);
  strip(graph.inputs);
  strip(graph.outputs);
  strip(graph.values);
}

void check(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)looks_like_onnx(bytes);
  auto model = parse_onnx(bytes, "fuzz.onnx", nullptr, memory_limit);
  if (!model) {
    CHECK(!model.error().message.empty());
    return;
  }
  strip(model->graph);
  for (auto& function : model->functions) {
    strip(function.nodes);
    strip(function.defaults);
    strip(function.values);
  }
  const auto written = encode_onnx(*model, "fuzz.onnx");
  CHECK(written.has_value());
  const auto again = parse_onnx(std::as_bytes(std::span(*written)), "fuzz.onnx", nullptr, 2 * memory_limit);
  CHECK(again.has_value());
  const auto twice = encode_onnx(*again, "fuzz.onnx");
  CHECK(twice.has_value() && *twice == *written);
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
