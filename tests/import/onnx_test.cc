// The exports of tests/data/onnx: imported, verified, written and read as text, and run to PyTorch's values,
// or to ONNX Runtime's.
#include "import/onnx.h"

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

struct Export {
  OnnxModel model;
  NpzFile values;
};

std::vector<std::string> names() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("data/onnx")))
    if (entry.path().extension() == ".onnx" && !entry.path().stem().string().starts_with("ops-"))
      found.insert(entry.path().stem().string());
  return {found.begin(), found.end()};
}

Export open(const std::string& name) {
  auto model = read_onnx(data_path("data/onnx/" + name + ".onnx").string());
  auto values = open_npz(data_path("data/onnx/" + name + ".npz").string());
  EXPECT_TRUE(model.has_value()) << model.error().message;
  EXPECT_TRUE(values.has_value()) << values.error().message;
  return {std::move(*model), std::move(*values)};
}

double relative_l2(const NamedTensor& got, const NpyArray& expected) {
  std::vector<float> want(static_cast<std::size_t>(expected.elements()));
  expected.floats_at(0, want);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double distance = got.at(static_cast<std::int64_t>(i)) - static_cast<double>(want[i]);
    error += distance * distance;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return std::sqrt(error / norm);
}

class OnnxExport : public ::testing::TestWithParam<std::string> {};

TEST_P(OnnxExport, GivesPyTorchsValues) {
  const Export file = open(GetParam());
  const auto made = graph_from_onnx(file.model, pins_from(file.values.arrays, file.model));
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ASSERT_TRUE(verify(made->graph).has_value());
  const std::string text = to_text(made->graph);
  const auto again = graph_from_text(text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(to_text(*again), text);

  ThreadPool pool(1);
  const auto outputs = run_onnx(*made, file.values.arrays, pool);
  const bool dynamic =
      std::any_of(made->graph.values().begin(), made->graph.values().end(), [](const Value& v) { return v.dynamic; });
  if (dynamic) {
    ASSERT_FALSE(outputs.has_value());
    EXPECT_EQ(outputs.error().code, Code::unsupported);
    EXPECT_TRUE(GetParam() == "qwen2-moe" || GetParam() == "deepseek-v3");  // each expert takes the rows that chose it
    return;
  }
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), file.model.graph.outputs.size());
  for (const NamedTensor& output : *outputs) {
    const auto expected = std::find_if(file.values.arrays.begin(), file.values.arrays.end(),
                                       [&](const NpyArray& each) { return each.name == output.name; });
    ASSERT_NE(expected, file.values.arrays.end()) << output.name;
    ASSERT_EQ(output.dims, expected->shape) << output.name;
    const double distance = relative_l2(output, *expected);
    std::cout << fmt::format("{} {}: {} nodes, relative L2 {:.2g}\n", GetParam(), output.name,
                             made->graph.list().size(), distance);
    // Float16 between the operators: sums are rounded where ONNX Runtime's are not.
    EXPECT_LE(distance, GetParam().ends_with("-f16") ? 2e-3 : 1e-5) << output.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OnnxExport, ::testing::ValuesIn(names()), [](const auto& each) {
  std::string name = each.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace knapsack
