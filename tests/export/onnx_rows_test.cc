// How single nodes and constants are written. That whole models compute what they should: onnx_test.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "export/onnx_builder.h"
#include "graph/graph.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

OnnxDraft draft(const std::string& lines, std::int64_t opset = 17, DType floats = DType::F32) {
  auto graph = graph_from_text("knapsack-graph 1\n" + lines);
  if (!graph) throw std::runtime_error(graph.error().message);
  return draft_onnx(*graph, {.opset = opset, .floats = floats});
}

const OnnxNode& node(const OnnxDraft& draft, std::string_view op) {
  for (const OnnxNode& each : draft.model.graph.nodes)
    if (each.op_type == op) return each;
  throw std::runtime_error("no " + std::string(op));
}

std::vector<std::int64_t> integers(const OnnxDraft& draft, const std::string& name) {
  for (const OnnxConstant& each : draft.constants) {
    if (each.name != name) continue;
    std::vector<std::int64_t> values(each.bytes->size() / sizeof(std::int64_t));
    std::memcpy(values.data(), each.bytes->data(), each.bytes->size());
    return values;
  }
  throw std::runtime_error("no constant " + name);
}

using Ints = std::vector<std::int64_t>;

TEST(OnnxRows, AxesOfReductionsAreAnInputFromOpset18On) {
  const std::string mean = "input %x [2, 3] F32\n%y [2, 1] F32 = ReduceMean %x {axes=[1], keepdims=1}\noutput %y\n";
  const OnnxDraft old = draft(mean, 17);
  EXPECT_EQ(node(old, "ReduceMean").inputs.size(), 1U);
  EXPECT_EQ(node(old, "ReduceMean").attribute("axes")->ints, Ints{1});
  EXPECT_EQ(old.model.ir_version, 8);
  const OnnxDraft fresh = draft(mean, 21);
  ASSERT_EQ(node(fresh, "ReduceMean").inputs.size(), 2U);
  EXPECT_EQ(node(fresh, "ReduceMean").attribute("axes"), nullptr);
  EXPECT_EQ(integers(fresh, node(fresh, "ReduceMean").inputs[1]), Ints{1});
  EXPECT_EQ(fresh.model.ir_version, 10);
  const OnnxDraft sum =
      draft("input %x [2, 3] F32\n%y [2, 1] F32 = ReduceSum %x {axes=[1], keepdims=1}\noutput %y\n", 17);
  EXPECT_EQ(node(sum, "ReduceSum").inputs.size(), 2U);
}

// A Relu or Clip that is a part of a product, a product's factor, blocks of channels: ONNX has them apart.
TEST(OnnxRows, WhatPassesFusedIsWrittenInItsParts) {
  const OnnxDraft made = draft(
      "input %x [1, 2, 4, 4] F32\n"
      "constant @w [2, 2, 1, 1] F32 = 3, -2, 1, 5\n"
      "constant @m [4, 4] F32 = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16\n"
      "%c [1, 2, 4, 4] F32 = Conv %x, @w {low=0}\n"
      "%d [1, 2, 4, 4] F32 = Conv %c, @w {low=0, high=6}\n"
      "%y [1, 2, 4, 4] F32 = MatMul %d, @m {alpha=0.5}\n"
      "output %y\n");
  std::vector<std::string> ops;
  for (const OnnxNode& each : made.model.graph.nodes) ops.push_back(each.op_type);
  EXPECT_EQ(ops, (std::vector<std::string>{"Conv", "Relu", "Conv", "Clip", "Mul", "MatMul"}));
  EXPECT_EQ(made.model.graph.nodes[1].outputs, std::vector<std::string>{"c"});
  EXPECT_EQ(node(made, "Clip").inputs.size(), 3U);
  EXPECT_EQ(made.model.graph.nodes.back().outputs, std::vector<std::string>{"y"});
}

TEST(OnnxRows, GeluIsWrittenOutBeforeOpset20) {
  const std::string gelu = "input %x [2, 3] F32\n%y [2, 3] F32 = Gelu %x {mode=1}\noutput %y\n";
  EXPECT_EQ(node(draft(gelu, 21), "Gelu").attribute("approximate")->s, "tanh");
  const OnnxDraft old = draft(gelu, 17);
  EXPECT_EQ(node(old, "Tanh").inputs.size(), 1U);
  EXPECT_EQ(old.model.graph.nodes.back().outputs, std::vector<std::string>{"y"});
}

TEST(OnnxRows, ASliceThatEndsWithTheFirstElement) {
  const OnnxDraft made =
      draft("input %x [4] F32\n%y [4] F32 = Slice %x {axes=[0], starts=[3], ends=[-1], steps=[-1]}\noutput %y\n");
  EXPECT_EQ(integers(made, node(made, "Slice").inputs[2]), Ints{-5});  // ONNX counts -1 from the back
  EXPECT_EQ(integers(made, node(made, "Slice").inputs[4]), Ints{-1});
}

TEST(OnnxRows, ReshapesOfReshapesAreOne) {
  const OnnxDraft made = draft(
      "input %x [2, 6] F32\n%a [3, 4] F32 = Reshape %x {shape=[3, 4]}\n%b [12] F32 = Reshape %a {shape=[12]}\n"
      "%y [12] F32 = Neg %b\noutput %y\n");
  ASSERT_EQ(made.model.graph.nodes.size(), 2U);
  EXPECT_EQ(node(made, "Reshape").inputs[0], "x");
  EXPECT_EQ(node(made, "Reshape").outputs[0], "b");
}

TEST(OnnxRows, AnOutputThatIsAnInputIsAnIdentity) {
  const OnnxDraft made = draft("input %x [2, 3] F32\n%y [2, 3] F32 = Cast %x {to=0}\noutput %y\n");
  EXPECT_EQ(made.model.graph.nodes.size(), 1U);
  EXPECT_NE(made.model.graph.outputs[0].name, made.model.graph.inputs[0].name);
}

std::shared_ptr<Weight> q8_weight(std::vector<std::int64_t> shape) {
  auto weight = std::make_shared<Weight>();
  weight->name = "w";
  weight->dtype = DType::Q8_0;
  weight->shape = std::move(shape);
  std::vector<float> values(static_cast<std::size_t>(weight->elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 251) - 125.F;
  auto data = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(weight->bytes()));
  format(DType::Q8_0).encode(values.data(), data->data(), weight->elements() / 32);
  weight->slabs = {data->data()};
  weight->owners = {data};
  return weight;
}

template <class T>
std::vector<T> appended(const OnnxConstant& constant, int* pieces) {
  std::vector<std::byte> bytes;
  const auto done = append_constant(constant, [&](std::span<const std::byte> piece) -> Result<void> {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    ++*pieces;
    return {};
  });
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  EXPECT_EQ(bytes.size(), constant.size());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// More than is in memory at a time, of both ways, and of several matrices.
TEST(OnnxConstants, DecodedAndTransposedByPanels) {
  constexpr std::int64_t experts = 2, rows = 9001, cols = 160;
  const auto weight = q8_weight({experts, rows, cols});
  std::vector<float> all(static_cast<std::size_t>(weight->elements()));
  format(DType::Q8_0).decode(weight->slabs[0], all.data(), weight->elements() / 32);
  int pieces = 0;
  const auto plain =
      appended<float>({.name = "w", .type = OnnxType::f32, .dims = {experts, rows, cols}, .weight = weight}, &pieces);
  EXPECT_GT(pieces, experts);
  EXPECT_TRUE(plain == all);
  pieces = 0;
  const auto turned = appended<std::uint16_t>(
      {.name = "w", .type = OnnxType::f16, .dims = {experts, cols, rows}, .weight = weight, .transposed = true},
      &pieces);
  EXPECT_GT(pieces, experts);
  std::int64_t wrong = 0;
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto from = static_cast<std::size_t>((e * rows + r) * cols + c);
        const auto to = static_cast<std::size_t>((e * cols + c) * rows + r);
        wrong += turned[to] != float_to_half(all[from]) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(OnnxConstants, AWeightThatFloat16CannotHoldIsNamed) {
  auto weight = std::make_shared<Weight>();
  const std::vector<float> values{1.F, 70000.F};
  weight->name = "w";
  weight->shape = {2};
  weight->slabs = {reinterpret_cast<const std::byte*>(values.data())};
  const auto append = [](std::span<const std::byte>) -> Result<void> { return {}; };
  const auto done = append_constant({.name = "big", .type = OnnxType::f16, .dims = {2}, .weight = weight}, append);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::unsupported);
  EXPECT_NE(done.error().message.find("big: 70000"), std::string::npos) << done.error().message;
  EXPECT_TRUE(append_constant({.name = "big", .type = OnnxType::f32, .dims = {2}, .weight = weight}, append));
}

}  // namespace
}  // namespace knapsack
