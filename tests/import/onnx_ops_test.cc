// Every operator of primitives.inc, and those of ONNX Runtime's own, imported from ONNX and run, beside ONNX Runtime's
// values (tests/data/onnx/ops-*).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>

#include "import/onnx_run.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::data_path;

constexpr std::array suites{"11", "12", "17", "18", "20", "21", "23", "microsoft"};

const NpyArray& named(const NpzFile& file, std::string_view name) {
  for (const NpyArray& each : file.arrays)
    if (each.name == name) return each;
  ADD_FAILURE() << "no array " << name;
  return file.arrays.front();
}

// Sums are made in another order than ONNX Runtime's, and exp is another one.
double tolerance(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 ? 4e-6 : dtype == DType::F16 ? 2e-3 : 0;
}

ImportedOnnx import(const std::string& file) {
  auto made = import_onnx(data_path("data/onnx/" + file + ".onnx").string(), {});
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

class OnnxOps : public ::testing::TestWithParam<const char*> {};

TEST_P(OnnxOps, GiveOnnxRuntimesValues) {
  const std::string file = fmt::format("ops-{}", GetParam());
  const ImportedOnnx made = import(file);
  const auto values = open_npz(data_path("data/onnx/" + file + ".npz").string());
  ASSERT_TRUE(values.has_value()) << values.error().message;
  const std::string text = to_text(made.graph);
  const auto again = graph_from_text(text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(to_text(*again), text);
  ThreadPool pool(2);
  const auto outputs = run_onnx(made, values->arrays, pool);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;

  const NpyArray& all = named(*values, "values");
  const NpyArray& shapes = named(*values, "shapes");
  std::vector<float> expected(static_cast<std::size_t>(all.elements()));
  all.floats_at(0, expected);
  std::int64_t shape_at = 0;
  std::size_t value_at = 0;
  double worst = 0;
  for (const NamedTensor& output : *outputs) {
    std::vector<std::int64_t> dims;
    for (std::int64_t left = shapes.integer_at(shape_at++); left > 0; --left)
      dims.push_back(shapes.integer_at(shape_at++));
    ASSERT_EQ(output.dims, dims) << output.name;
    double furthest = 0;
    for (std::int64_t i = 0; i < output.elements(); ++i) {
      const double want = static_cast<double>(expected[value_at++]);
      const double got = output.at(i);
      if (want == got || (std::isnan(want) && std::isnan(got))) continue;
      const double distance = std::abs(got - want) / std::max(1.0, std::abs(want));
      if (distance <= furthest) continue;  // one message an output
      furthest = distance;
      EXPECT_LE(distance, tolerance(output.dtype)) << output.name << '[' << i << "] is " << got << ", not " << want;
    }
    if (output.dtype != DType::F16) worst = std::max(worst, furthest);
  }
  EXPECT_EQ(value_at, expected.size());
  std::cout << fmt::format("{}: {} outputs, the largest distance {:.2g}\n", file, outputs->size(), worst);
}

INSTANTIATE_TEST_SUITE_P(Opsets, OnnxOps, ::testing::ValuesIn(suites),
                         [](const auto& each) { return fmt::format("Opset_{}", each.param); });

OnnxValue tensor_value(std::string name, const std::vector<std::int64_t>& dims, OnnxType type = OnnxType::f32) {
  OnnxValue value{.name = std::move(name), .type = type, .shape = std::vector<OnnxDim>{}};
  for (const std::int64_t each : dims) value.shape->push_back({.number = each});
  return value;
}

// How many there are depends on data: it is imported, and has no program.
TEST(OnnxOps, NonZeroOfWhatIsComputedHasNoProgram) {
  OnnxModel model;
  model.opsets[""] = 17;
  model.graph.inputs = {tensor_value("x", {2, 3})};
  model.graph.outputs = {tensor_value("found", {2, 6}, OnnxType::i64)};
  model.graph.nodes = {{.op_type = "NonZero", .inputs = {"x"}, .outputs = {"found"}}};
  const auto made = graph_from_onnx(model, {});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const Value& found = made->graph.value(made->graph.output());
  EXPECT_TRUE(found.dynamic);
  EXPECT_EQ(found.dims, (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(made->graph.list().front().op, Op::NonZero);
  const auto program = lower(made->graph, {});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, Code::unsupported);
}

TEST(OnnxOps, NoneIsLeftOut) {
  std::set<Op> seen{Op::NonZero};  // above
  for (const char* suite : suites) {
    const ImportedOnnx made = import(fmt::format("ops-{}", suite));
    for (const Node& node : made.graph.list()) seen.insert(node.op);
  }
  for (const OpInfo& info : all_ops())
    if (info.primitive) {
      EXPECT_TRUE(seen.contains(info.op)) << info.text;
    }
}

}  // namespace
}  // namespace knapsack
