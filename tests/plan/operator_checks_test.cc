// Each rule of a toolchain's table on nodes of golden models whose shapes are known.
#include "plan/operator_checks.h"

#include <gtest/gtest.h>

#include "import/golden.h"

namespace knapsack {
namespace {

// Hidden 64, 4 heads of 16, 2 of K and V, feed-forward 160, 512 words; 5 tokens behind 3.
const Graph& llama() {
  static const Graph graph = [] {
    auto imported = import_model(testing::data_path("golden/llama-llama3rope").string(), {});
    if (!imported) throw std::runtime_error(imported.error().message);
    return decompose(imported->graph, {5, 3});
  }();
  return graph;
}

const Node& node(const std::string& name) {
  for (const Node& each : llama().list())
    if (each.name == name) return each;
  throw std::runtime_error("no node " + name);
}

// "" where the check is kept.
std::string why(const std::string& name, CheckRule rule, std::int64_t value = 0, std::vector<std::string> types = {}) {
  return broken({.rule = rule, .value = value, .types = std::move(types)}, llama(), node(name)).value_or("");
}

const std::string softmax = "layers.0.attn.context/Softmax";      // [1, 4, 5, 8] along 3, float32
const std::string transpose = "layers.0.attn.context/Transpose";  // keys: [1, 4, 8, 16]
const std::string append = "layers.0.attn.k_write/Concat";        // [1, 2, 3, 16] and [1, 2, 5, 16] along 2
const std::string mean = "layers.0.attn_norm/ReduceMean";         // [1, 5, 64] along 2
const std::string divide = "layers.0.attn_norm/Div";              // 1 by [1, 5, 1]
const std::string product = "layers.0.mlp.down_proj/MatMul";      // [1, 5, 160] by [160, 64]

TEST(OperatorChecks, Axes) {
  EXPECT_EQ(why("embed/Gather", CheckRule::axis, 0), "");
  EXPECT_EQ(why("embed/Gather", CheckRule::axis, 1), "its axis is 0; 1 is taken");
  EXPECT_EQ(why(softmax, CheckRule::last_axis), "");
  EXPECT_EQ(why(append, CheckRule::last_axis), "its axis is 2 of 4; the last is taken");
  EXPECT_EQ(why(product, CheckRule::last_axis), "");  // it has none
  EXPECT_EQ(why(mean, CheckRule::max_axis_size, 64), "");
  EXPECT_EQ(why(mean, CheckRule::max_axis_size, 63), "axis 2 of input 0 is 64; at most 63 is taken");
  EXPECT_EQ(why(mean, CheckRule::flat_depth), "");  // height 1
}

TEST(OperatorChecks, Sizes) {
  EXPECT_EQ(why(softmax, CheckRule::max_rank, 4), "");
  EXPECT_EQ(why(softmax, CheckRule::max_rank, 3), "input 0 has 4 dimensions; at most 3 are taken");
  EXPECT_EQ(why(mean, CheckRule::rank, 3), "");
  EXPECT_EQ(why(mean, CheckRule::rank, 4), "input 0 has 3 dimensions; 4 are taken");
  EXPECT_EQ(why(product, CheckRule::rank, 3), "");  // a matrix of weights is one of 2 everywhere
  EXPECT_EQ(why(softmax, CheckRule::max_last, 8), "");
  EXPECT_EQ(why(softmax, CheckRule::max_last, 7), "the last dimension is 8; at most 7 is taken");
  EXPECT_EQ(why(softmax, CheckRule::max_rows, 20), "");
  EXPECT_NE(why(softmax, CheckRule::max_rows, 19), "");
  EXPECT_EQ(why(softmax, CheckRule::max_elements, 160), "");
  EXPECT_NE(why(softmax, CheckRule::max_elements, 159), "");
  EXPECT_EQ(why(transpose, CheckRule::max_outer, 4), "");
  EXPECT_EQ(why(transpose, CheckRule::max_outer, 3),
            "the product of all dimensions but the last two is 4; at most 3 is taken");
  EXPECT_EQ(why(product, CheckRule::max_product_dim, 160), "");
  EXPECT_EQ(why(product, CheckRule::max_product_dim, 159), "what is summed over is 160; at most 159 is taken");
  EXPECT_EQ(why("layers.0.mlp.gate_proj/MatMul", CheckRule::max_product_dim, 159),
            "the number of columns is 160; at most 159 is taken");
  EXPECT_EQ(why(softmax, CheckRule::batch, 1), "");
  EXPECT_EQ(why(softmax, CheckRule::static_shape), "");
}

TEST(OperatorChecks, Constants) {
  EXPECT_EQ(why(product, CheckRule::constant_input, 1), "");
  EXPECT_EQ(why("layers.0.attn.context/MatMul", CheckRule::constant_input, 1),
            "input 1 is computed; a constant is taken");
  EXPECT_EQ(why(product, CheckRule::max_constant_inputs, 1), "");
  EXPECT_EQ(why("mask/Where", CheckRule::max_constant_inputs, 1),
            "the number of constant inputs is 2; at most 1 is taken");
  EXPECT_EQ(why(divide, CheckRule::multiple_or_scalar, 5), "");
  EXPECT_EQ(why(divide, CheckRule::multiple_or_scalar, 8),
            "input 1 is [1, 5, 1]; one dimension divisible by 8, or a single element, is taken");
  EXPECT_EQ(why("layers.0.attn_norm/Pow", CheckRule::multiple_or_scalar, 8), "");  // by one number
  EXPECT_EQ(why(softmax, CheckRule::always), "");
}

TEST(OperatorChecks, ExportedTypes) {
  EXPECT_EQ(why(softmax, CheckRule::output_type, 0, {"float32"}), "");
  EXPECT_EQ(why(product, CheckRule::output_type, 0, {"float32"}), "output 0 is float16; float32 is taken");
  EXPECT_EQ(why("layers.0.attn_norm/Pow", CheckRule::input_type, 0, {"float32"}), "");
  EXPECT_EQ(why("mask/Greater", CheckRule::input_type, 0, {"float16", "float32"}),
            "input 0 is int64; float16 or float32 is taken");
  EXPECT_EQ(why(softmax, CheckRule::no_int64_index), "");
  EXPECT_EQ(why("embed/Gather", CheckRule::no_int64_index),
            "input 1 is int64; narrower indices are taken: export int32");
  EXPECT_EQ(why("layers.0.attn_norm/Add", CheckRule::no_broadcast), "input 1 has another shape than input 0");
}

TEST(OperatorChecks, AStandInHasItsOwnConstants) {
  const OpCheck constant{.rule = CheckRule::constant_input, .value = 1};
  const Node& scores = node("layers.0.attn.context/MatMul");
  EXPECT_TRUE(broken(constant, llama(), scores));
  EXPECT_FALSE(broken(constant, llama(), scores, true));
}

TEST(OperatorChecks, ReshapedWhereThatHelps) {
  const auto how = [](const std::string& name, CheckRule rule, std::int64_t value) {
    return kept_reshaped({.rule = rule, .value = value}, llama(), node(name)).value_or("");
  };
  EXPECT_NE(how(softmax, CheckRule::max_rank, 3), "");  // [1, 4, 5, 8]
  EXPECT_EQ(how(softmax, CheckRule::max_rank, 2), "");
  EXPECT_NE(how(mean, CheckRule::rank, 4), "");
  EXPECT_NE(how(mean, CheckRule::rank, 2), "");
  EXPECT_EQ(how(mean, CheckRule::rank, 1), "");
  EXPECT_EQ(how(softmax, CheckRule::batch, 1), "");  // there are four already
  EXPECT_NE(how(mean, CheckRule::batch, 1), "");
  EXPECT_EQ(how(mean, CheckRule::max_axis_size, 1), "");
}

}  // namespace
}  // namespace knapsack
