// What an ONNX file may have wrong, or may have that this version has not: each is an error that says where.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <random>

#include "graph/run.h"
#include "import/onnx_run.h"
#include "support/support.h"

namespace knapsack {
namespace {

constexpr std::uint64_t mutations = 300;  // of each file

OnnxValue tensor(std::string name, std::vector<OnnxDim> dims, OnnxType type = OnnxType::f32) {
  return {.name = std::move(name), .type = type, .shape = std::move(dims)};
}
OnnxDim symbol(std::string name) { return {.symbol = std::move(name)}; }
OnnxDim size(std::int64_t number) { return {.number = number}; }

OnnxNode node(std::string op, std::vector<std::string> inputs, std::vector<std::string> outputs,
              std::vector<OnnxAttribute> attributes = {}) {
  OnnxNode made;
  made.name = "/" + outputs.front();
  made.op_type = std::move(op);
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.attributes = std::move(attributes);
  return made;
}

OnnxModel model(std::vector<OnnxNode> nodes, std::vector<OnnxValue> inputs = {}) {
  OnnxModel made;
  made.opsets[""] = 17;
  made.graph.inputs = inputs.empty() ? std::vector{tensor("x", {size(2), size(3)})} : std::move(inputs);
  made.graph.outputs = {tensor("y", {})};
  made.graph.nodes = std::move(nodes);
  return made;
}

struct Failure {
  Code code{};
  std::string message;
};
Failure failure(const OnnxModel& m, const OnnxPins& pins = {}) {
  auto made = graph_from_onnx(m, pins);
  EXPECT_FALSE(made.has_value());
  return made ? Failure{} : Failure{made.error().code, made.error().message};
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(OnnxErrors, EveryOpenDimensionIsNamedWithItsFlag) {
  const OnnxModel m = model({node("Relu", {"ids"}, {"y"})},
                            {tensor("ids", {symbol("batch_size"), symbol("sequence_length")}),
                             tensor("mask", {symbol("batch_size"), symbol("past_sequence_length + sequence_length")}),
                             tensor("image", {size(1), OnnxDim{}})});
  const Failure all = failure(m);
  EXPECT_EQ(all.code, Code::usage);
  for (const auto* flag :
       {"--dim batch_size=", "--dim sequence_length=", "--dim past_sequence_length=", "--input image=1,SIZE"})
    EXPECT_TRUE(has(all.message, flag)) << flag << "\n" << all.message;
  const Failure rest = failure(m, {.dims = {{"batch_size", 1}, {"sequence_length", 4}}});
  EXPECT_FALSE(has(rest.message, "batch_size=")) << rest.message;
  EXPECT_TRUE(has(rest.message, "--dim past_sequence_length=")) << rest.message;
  const auto made = graph_from_onnx(m, {.dims = {{"sequence_length", 4}, {"past_sequence_length", 3}},
                                        .shapes = {{"image", {1, 5}}, {"ids", {2, 4}}}});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->graph.value(made->graph.find("mask")).dims, (std::vector<std::int64_t>{2, 7}));
}

TEST(OnnxErrors, PinsThatFitNothing) {
  const OnnxModel m = model({node("Relu", {"x"}, {"y"})}, {tensor("x", {symbol("n"), size(3)})});
  for (const OnnxPins& pins :
       {OnnxPins{.dims = {{"m", 1}}}, OnnxPins{.dims = {{"n", 0}}}, OnnxPins{.shapes = {{"z", {1, 3}}}},
        OnnxPins{.shapes = {{"x", {1, 4}}}}, OnnxPins{.shapes = {{"x", {3}}}}, OnnxPins{.shapes = {{"x", {-1, 3}}}},
        OnnxPins{.dims = {{"n", 2}}, .shapes = {{"x", {1, 3}}}}})
    EXPECT_EQ(failure(m, pins).code, Code::usage);
}

TEST(OnnxErrors, EveryUnsupportedOperatorIsListed) {
  OnnxModel m = model({node("Einsum", {"x"}, {"a"}), node("Einsum", {"x"}, {"b"}), node("Relu", {"a"}, {"c"}),
                       node("ReduceL1", {"c"}, {"d"}), node("FusedMatMul", {"x", "x"}, {"e"}),
                       node("ScatterND", {"x", "i", "x"}, {"f"}, {onnx_attribute("reduction", std::string("mean"))}),
                       node("Add", {"d", "e"}, {"y"})},
                      {tensor("x", {size(2), size(3)}), tensor("i", {size(1), size(1)}, OnnxType::i64)});
  m.graph.nodes[4].domain = "com.example";
  const Failure f = failure(m);
  EXPECT_EQ(f.code, Code::unsupported);
  for (const auto* part : {"5 nodes", "Einsum", "'/a', '/b'", "MatMul", "ReduceL1", "'/d'", "ReduceSum of Abs",
                           "com.example.FusedMatMul", "'/e'", "reduction='mean'", "'/f'"})
    EXPECT_TRUE(has(f.message, part)) << part << "\n" << f.message;
  EXPECT_FALSE(has(f.message, "'/y'")) << f.message;  // it only takes what they would make
}

// What ONNX Runtime's own operators have that this version has not, and what of them is none of theirs.
TEST(OnnxErrors, FormsOfOnnxRuntimesOwnOperators) {
  const std::vector<OnnxValue> inputs{tensor("x", {size(1), size(2), size(32)}),
                                      tensor("at", {size(1), size(2)}, OnnxType::i64),
                                      tensor("table", {size(4), size(4)}),
                                      tensor("seen", {size(1)}, OnnxType::i32),
                                      tensor("all", {}, OnnxType::i32),
                                      tensor("past", {size(2), size(1), size(4), size(3), size(8)}),
                                      tensor("w", {size(32), size(96)}),
                                      tensor("codes", {size(4), size(1), size(16)}),
                                      tensor("scales", {size(4)})};
  struct Case {
    OnnxNode node;
    Code code;
    const char* said;
  };
  const auto one = [](const char* name, std::int64_t value) { return onnx_attribute(name, value); };
  const auto heads = one("num_heads", 4);
  const auto kv_heads = one("kv_num_heads", 4);
  const std::vector<std::string> grouped{"x", "x", "x", "", "", "seen", "all"};
  const Case cases[] = {
      {node("RotaryEmbedding", {"x", "at", "table", "table"}, {"y"}, {one("is_packed_batching", 1)}), Code::unsupported,
       "nearest form is is_packed_batching=0"},
      {node("RotaryEmbedding", {"x", "at", "table", "table"}, {"y"}, {onnx_attribute("scale", 2.0F)}),
       Code::unsupported, "nearest form is scale=1"},
      {node("RotaryEmbedding", {"x", "at", "table", "table"}, {"y"}, {one("base", 1)}), Code::unsupported, "base"},
      {node("RotaryEmbedding", {"x", "at", "table", "table"}, {"y"}, {one("num_heads", -1)}), Code::bad_input, "turn"},
      {node("GroupQueryAttention", grouped, {"y"}, {heads, kv_heads, one("qk_output", 1)}), Code::unsupported,
       "qk_output=1"},
      {node("GroupQueryAttention", grouped, {"y"},
            {heads, kv_heads, onnx_attribute("k_quant_type", std::string("PER_TENSOR"))}),
       Code::unsupported, "cache of floats"},
      {node("GroupQueryAttention", grouped, {"y"}, {heads, one("kv_num_heads", 3)}), Code::bad_input, "kv_num_heads=3"},
      {node("GroupQueryAttention", grouped, {"y"}, {heads, kv_heads, one("do_rotary", 1)}), Code::bad_input, "tables"},
      {node("Attention", {"x", "w", "", "", "past"}, {"y"}, {heads}), Code::unsupported, "GroupQueryAttention"},
      {node("Attention", {"x", "x"}, {"y"}, {heads}), Code::bad_input, "matrix"},
      {node("MultiHeadAttention", {"x"}, {"y"}, {heads}), Code::bad_input, "key"},
      {node("MultiHeadAttention", {"x", "x", "x", "", "at"}, {"y"}, {heads}), Code{}, ""},
      {node("MultiHeadAttention", {"x", "x", "x", "", "scales"}, {"y"}, {heads}), Code::unsupported, "[batch, keys]"},
      {node("FusedMatMul", {"x", "x"}, {"y"}, {one("transBatchA", 1)}), Code::unsupported, "Transpose and MatMul"},
      {node("MatMulNBits", {"x", "codes", "scales"}, {"y"}, {one("N", 4), one("K", 32), one("bits", 2)}),
       Code::unsupported, "bits=4"},
      {node("MatMulNBits", {"x", "codes", "scales"}, {"y"}, {one("N", 4), one("K", 32)}), Code::unsupported, "codes"},
      {node("MatMulNBits", {"x", "codes", "scales"}, {"y"}, {one("N", -4), one("K", 32)}), Code::bad_input, "N=-4"},
      {node("SkipSimplifiedLayerNormalization", {"x", "x", "scales"}, {"y"}), Code::bad_input, "each column"},
      {node("BiasSplitGelu", {"x", "x"}, {"y"}), Code::unsupported, "ai.onnx"},
  };
  for (const Case& each : cases) {
    OnnxModel m = model({each.node}, inputs);
    m.opsets["com.microsoft"] = 1;
    m.graph.nodes[0].domain = "com.microsoft";
    if (each.code == Code{}) {
      EXPECT_TRUE(graph_from_onnx(m, {}).has_value());
      continue;
    }
    const Failure f = failure(m);
    EXPECT_EQ(f.code, each.code) << f.message;
    EXPECT_TRUE(has(f.message, each.said)) << each.said << "\n" << f.message;
    EXPECT_TRUE(has(f.message, "'/y'")) << f.message;
  }
}

// Queries, keys and values packed in one, which ONNX Runtime has on no processor: what they are apart.
TEST(OnnxImport, PackedHeads) {
  using List = std::vector<std::int64_t>;
  const auto ints = [](const char* name, List list) {
    return node("Constant", {}, {name}, {onnx_attribute("value_ints", std::move(list))});
  };
  const auto own = [](OnnxNode made) {
    made.domain = "com.microsoft";
    made.attributes = {onnx_attribute("num_heads", 2)};
    return made;
  };
  std::vector<OnnxNode> nodes{ints("axis", {3}), ints("rows", {1, 3, 8})};
  for (const std::int64_t i : {0, 1, 2, 3}) nodes.push_back(ints(fmt::format("{}", i).c_str(), {i}));
  for (const auto& [name, from] : {std::pair<std::string, std::string>{"q", "0"}, {"k", "1"}, {"v", "2"}}) {
    const std::string to = fmt::format("{}", std::stoi(from) + 1);
    nodes.push_back(node("Slice", {"x", from, to, "axis"}, {name + "_part"}));
    nodes.push_back(node("Reshape", {name + "_part", "rows"}, {name}));
  }
  nodes.push_back(node("Slice", {"x", "1", "3", "axis"}, {"kv"}));
  nodes.push_back(own(node("MultiHeadAttention", {"q", "k", "v"}, {"apart"})));
  nodes.push_back(own(node("MultiHeadAttention", {"x"}, {"all"})));
  nodes.push_back(own(node("MultiHeadAttention", {"q", "kv"}, {"two"})));
  OnnxModel m = model(nodes, {tensor("x", {size(1), size(3), size(2), size(3), size(4)})});
  m.graph.outputs = {tensor("apart", {}), tensor("all", {}), tensor("two", {})};
  const auto made = graph_from_onnx(m, {});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  std::vector<float> x(72);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i));
  ThreadPool pool(1);
  const NpyArray array{
      .name = "x", .type = NpyType::f32, .shape = {1, 3, 2, 3, 4}, .data = std::as_bytes(std::span(x))};
  const auto outputs = run_onnx(*made, {&array, 1}, pool);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].bytes, (*outputs)[1].bytes);
  EXPECT_EQ((*outputs)[0].bytes, (*outputs)[2].bytes);
  EXPECT_NE((*outputs)[0].at(0), (*outputs)[0].at(8));
}

// A cache that nothing is in yet: no input of the graph, and gone where the step's rows are put behind it.
TEST(OnnxImport, CachesWithoutRows) {
  OnnxModel m =
      model({node("Transpose", {"past"}, {"turned"}, {onnx_attribute("perm", std::vector<std::int64_t>{1, 0, 2})}),
             node("Concat", {"turned", "x"}, {"all"}, {onnx_attribute("axis", 1)}), node("Relu", {"all"}, {"y"})},
            {tensor("x", {size(4), size(2), size(3)}), tensor("past", {symbol("past"), size(4), size(3)}),
             tensor("ids", {size(1), size(2)}, OnnxType::i64)});
  const auto made = graph_from_onnx(m, {.dims = {{"past", 0}}});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->inputs, (std::vector<std::string>{"x", "ids"}));
  EXPECT_EQ(made->graph.list().size(), 1U);
  EXPECT_EQ(made->graph.value(made->graph.output()).dims, (std::vector<std::int64_t>{4, 2, 3}));
  const auto some = graph_from_onnx(m, {.dims = {{"past", 2}}});
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_EQ(some->graph.value(some->graph.output()).dims, (std::vector<std::int64_t>{4, 4, 3}));
  EXPECT_EQ(failure(m, {.shapes = {{"ids", {1, 0}}}}).code, Code::usage);
  m.graph.nodes[1].op_type = "MatMul";
  m.graph.nodes[1].attributes.clear();
  EXPECT_EQ(failure(m, {.dims = {{"past", 0}}}).code, Code::unsupported);
}

TEST(OnnxErrors, FunctionsOfTheFilesOwn) {
  OnnxModel m = model({node("Relu", {"x"}, {"y"})});
  m.functions.push_back({.name = "Relu", .inputs = {"a"}, .outputs = {"b"}});
  const Failure f = failure(m);
  EXPECT_EQ(f.code, Code::unsupported);
  EXPECT_TRUE(has(f.message, "function")) << f.message;
}

TEST(OnnxErrors, WhatIsUsedAndNotMade) {
  const Failure f = failure(
      model({node("MaxPool", {"x"}, {"p", "indices"}, {onnx_attribute("kernel_shape", std::vector<std::int64_t>{1})}),
             node("Identity", {"indices"}, {"y"})},
            {tensor("x", {size(1), size(2), size(3)})}));
  EXPECT_EQ(f.code, Code::unsupported);
  EXPECT_TRUE(has(f.message, "output 1")) << f.message;
}

TEST(OnnxErrors, ShapesThatDependOnData) {
  const Failure f = failure(model({node("Expand", {"x", "s"}, {"y"})},
                                  {tensor("x", {size(2), size(3)}), tensor("s", {size(2)}, OnnxType::i64)}));
  EXPECT_EQ(f.code, Code::unsupported);
  EXPECT_TRUE(has(f.message, "shape ('s')")) << f.message;
}

TEST(OnnxErrors, BrokenGraphs) {
  const auto code = [](std::vector<OnnxNode> nodes) { return failure(model(std::move(nodes))).code; };
  EXPECT_EQ(code({node("Relu", {"nothing"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Relu", {"b"}, {"y"}), node("Relu", {"x"}, {"b"})}), Code::bad_input);  // out of order
  EXPECT_EQ(code({node("Add", {"x", "y"}, {"y"})}), Code::bad_input);                          // a cycle
  EXPECT_EQ(code({node("Relu", {"x"}, {"y"}), node("Relu", {"x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Relu", {"x"}, {"x"})}), Code::bad_input);
  EXPECT_EQ(code({node("Relu", {"x"}, {"z"})}), Code::bad_input);
  EXPECT_EQ(code({node("Relu", {"x", "x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Add", {"x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Add", {"", "x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("MatMul", {"x", "x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Concat", {"x"}, {"y"})}), Code::bad_input);
  EXPECT_EQ(code({node("Softmax", {"x"}, {"y"}, {onnx_attribute("axis", 7)})}), Code::bad_input);
  EXPECT_EQ(code({node("Softmax", {"x"}, {"y"}, {onnx_attribute("axis", 1.0F)})}), Code::bad_input);
  EXPECT_EQ(code({node("Softmax", {"x"}, {"y"}, {onnx_attribute("axes", 1)})}), Code::unsupported);
  EXPECT_EQ(code({node("Cast", {"x"}, {"y"}, {onnx_attribute("to", 2)})}), Code::unsupported);
}

TEST(OnnxErrors, Opsets) {
  for (const std::int64_t opset : {10, 24}) {
    OnnxModel m = model({node("Relu", {"x"}, {"y"})});
    m.opsets[""] = opset;
    EXPECT_EQ(failure(m).code, Code::unsupported);
  }
  OnnxModel m = model({node("Relu", {"x"}, {"y"})});
  m.opsets.clear();
  EXPECT_EQ(failure(m).code, Code::bad_input);
}

// Names that cannot be had in the graph stand for themselves outside of it.
TEST(OnnxImport, OutputsKeepTheirNames) {
  OnnxModel m =
      model({node("Split", {"x"}, {"a", "b", "c"}, {onnx_attribute("axis", 1)}), node("Relu", {"b"}, {"a.1"})});
  m.graph.outputs = {tensor("b", {}), tensor("x", {}), tensor("a.1", {}), tensor("k", {}), tensor("b2", {})};
  m.graph.nodes.push_back(node("Identity", {"b"}, {"b2"}));
  m.graph.nodes.push_back(node("Constant", {}, {"k"}, {onnx_attribute("value_ints", std::vector<std::int64_t>{4, 5})}));
  const auto made = graph_from_onnx(m, {});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->outputs, (std::vector<std::string>{"b", "x", "a.1", "k", "b2"}));
  const std::vector<float> x{1, -2, 3, 4, 5, 6};
  ThreadPool pool(1);
  const NpyArray array{.name = "x", .type = NpyType::f32, .shape = {2, 3}, .data = std::as_bytes(std::span(x))};
  const auto outputs = run_onnx(*made, {&array, 1}, pool);
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].at(0), -2);
  EXPECT_EQ((*outputs)[1].at(5), 6);
  EXPECT_EQ((*outputs)[2].at(0), 0);
  EXPECT_EQ((*outputs)[3].at(1), 5);
  EXPECT_EQ((*outputs)[4].at(1), 5);
}

// Before IR version 4 initializers are inputs, too. What lies aligned in the file is not copied.
TEST(OnnxImport, InitializersAmongTheInputs) {
  alignas(64) static constexpr std::array<float, 3> weight{1, 2, 3};
  OnnxModel m = model({node("Add", {"x", "w"}, {"y"})}, {tensor("x", {size(2), size(3)}), tensor("w", {symbol("n")})});
  m.graph.initializers = {{.name = "w", .type = OnnxType::f32, .dims = {3}, .data = std::as_bytes(std::span(weight))}};
  const auto made = graph_from_onnx(m, {});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->inputs, std::vector<std::string>{"x"});
  const Value& w = made->graph.value(made->graph.find("w"));
  EXPECT_EQ(w.kind, ValueKind::constant);
  EXPECT_EQ(w.weight->slabs.front(), reinterpret_cast<const std::byte*>(weight.data()));
}

// Models that no exporter would write: what is read of a file is changed at random, and then imported and, where it is
// small, run. Nothing may crash.
class Mutation {
 public:
  explicit Mutation(std::uint64_t seed) : random_(seed) {}

  void change(OnnxModel& m) {
    for (std::uint64_t count = 1 + below(3); count > 0; --count) {
      auto& g = m.graph;
      OnnxNode& n = g.nodes[below(g.nodes.size())];
      switch (below(10)) {
        case 0:
          if (!n.inputs.empty()) n.inputs[below(n.inputs.size())] = any_name(m);
          break;
        case 1:
          if (!n.inputs.empty()) n.inputs.erase(n.inputs.begin() + static_cast<std::ptrdiff_t>(below(n.inputs.size())));
          break;
        case 2:
          n.inputs.push_back(any_name(m));
          break;
        case 3:
          n.op_type = g.nodes[below(g.nodes.size())].op_type;
          break;
        case 4:
          if (!n.attributes.empty()) n.attributes.erase(n.attributes.begin());
          break;
        case 5:
          for (OnnxAttribute& a : n.attributes) change(a);
          break;
        case 6:
          if (!g.initializers.empty()) change(g.initializers[below(g.initializers.size())]);
          break;
        case 7:
          change(g.inputs[below(g.inputs.size())]);
          break;
        case 8:
          if (!n.attributes.empty() && !g.nodes.empty()) {
            const auto& from = g.nodes[below(g.nodes.size())].attributes;
            if (!from.empty()) n.attributes.push_back(from[below(from.size())]);
          }
          break;
        default:
          m.opsets[""] = static_cast<std::int64_t>(10 + below(15));
      }
    }
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::int64_t number() {
    constexpr std::array<std::int64_t, 14> edges{
        0, 1, -1, 2, 3, -2, 7, 100, 1 << 16, (std::int64_t{1} << 31) - 1, 1LL << 31, INT64_MAX, INT64_MIN, -100};
    return edges[below(edges.size())];
  }
  std::string any_name(const OnnxModel& m) {
    const OnnxNode& n = m.graph.nodes[below(m.graph.nodes.size())];
    const auto& list = below(2) == 0 ? n.inputs : n.outputs;
    return list.empty() ? "" : list[below(list.size())];
  }
  void change(OnnxAttribute& a) {
    if (below(2) == 0) return;
    a.i = number();
    a.f = below(4) == 0 ? HUGE_VALF : static_cast<float>(number());
    for (std::int64_t& each : a.ints)
      if (below(2) == 0) each = number();
    if (below(4) == 0) a.ints.push_back(number());
    if (below(4) == 0 && !a.ints.empty()) a.ints.pop_back();
    if (below(8) == 0 && a.type == OnnxAttributeType::i) a.type = OnnxAttributeType::f;
  }
  void change(OnnxTensor& t) {
    if (t.type == OnnxType::i64 && !t.data.empty()) {
      auto bytes = std::make_shared<std::vector<std::byte>>(t.data.begin(), t.data.end());
      const std::int64_t value = number();
      std::memcpy(bytes->data() + below(bytes->size() / 8) * 8, &value, 8);
      t.data = *bytes;
      t.owner = bytes;
    } else if (t.type == OnnxType::f32 && below(2) == 0) {
      t.type = OnnxType::i32;
    } else {
      std::reverse(t.dims.begin(), t.dims.end());
    }
  }
  void change(OnnxValue& v) {
    if (!v.shape || v.shape->empty()) return;
    OnnxDim& dim = (*v.shape)[below(v.shape->size())];
    dim.number = number();
    if (below(3) == 0) v.shape->push_back(dim);
    if (below(3) == 0) v.type = OnnxType::i64;
  }
  std::mt19937_64 random_;
};

TEST(OnnxImport, NothingCrashesOnHostileModels) {
  std::map<Code, int> codes;
  int ran = 0;
  for (const auto* file :
       {"ops-11", "ops-17", "ops-18", "ops-20", "ops-microsoft", "mobilenet-trained", "qwen3-dynamo", "qwen2-moe"}) {
    const auto original = read_onnx(testing::data_path(fmt::format("data/onnx/{}.onnx", file)).string());
    ASSERT_TRUE(original.has_value());
    OnnxPins pins;
    for (const OnnxValue& input : original->graph.inputs)
      for (const OnnxDim& dim : *input.shape)
        if (!dim.symbol.empty() && dim.symbol.find(' ') == std::string::npos) pins.dims[dim.symbol] = 3;
    for (std::uint64_t seed = 0; seed < mutations; ++seed) {
      OnnxModel m = *original;
      Mutation(seed).change(m);
      // One operator at a time goes deeper: a file of cases is refused as a whole.
      if (std::string_view(file).starts_with("ops-")) {
        std::mt19937_64 random(seed);
        const std::size_t first = random() % m.graph.nodes.size();
        std::vector<OnnxNode> kept(
            m.graph.nodes.begin() + static_cast<std::ptrdiff_t>(first),
            m.graph.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(first + 3, m.graph.nodes.size())));
        m.graph.nodes = kept;
        m.graph.outputs.clear();
        for (const std::string& output : kept.back().outputs) m.graph.outputs.push_back(tensor(output, {}));
        Mutation(seed + 1).change(m);
      }
      const auto made = graph_from_onnx(m, pins);
      if (!made) {
        ++codes[made.error().code];
        continue;
      }
      ++codes[Code{}];
      const auto program = lower(made->graph, {});
      if (!program || (*program)->arena_bytes > 1 << 20) continue;
      std::vector<std::vector<std::byte>> inputs;
      for (const Value& v : made->graph.values())
        if (v.kind == ValueKind::input)
          inputs.emplace_back(static_cast<std::size_t>(v.elements() * format(v.dtype).block_bytes), std::byte{1});
      ThreadPool pool(1);
      EXPECT_TRUE(run_tensors(made->graph, std::vector<std::span<const std::byte>>(inputs.begin(), inputs.end()), pool)
                      .has_value());
      ++ran;
    }
  }
  for (const auto& [code, count] : codes) std::cout << "code " << static_cast<int>(code) << ": " << count << '\n';
  std::cout << ran << " ran\n";
  EXPECT_GT(ran, 100);
  EXPECT_GT(codes[Code::bad_input], 100);
}

}  // namespace
}  // namespace knapsack
