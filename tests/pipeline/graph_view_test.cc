// Our graph as a view: every op is a box of its class, values are what the graph says, layers are what is asked for.
#include "pipeline/graph_view.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/every_op.h"
#include "pipeline/graph_stage.h"

namespace knapsack {
namespace {

TEST(GraphView, EveryOpOfTheTable) {
  const Graph g = testing::every_op_graph();
  const GraphView view = graph_view(g, "t", {});
  std::size_t ops = 0;
  for (const GraphView::Node& node : view.nodes) {
    if (node.source) continue;
    const Node& from = g.list().at(ops++);
    EXPECT_EQ(node.name, from.name);
    EXPECT_EQ(node.op, op_info(from.op).text);
    EXPECT_EQ(node.attributes.size(), from.attrs.entries().size());
    ASSERT_EQ(node.inputs.size(), from.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      EXPECT_EQ(view.values[node.inputs[i]].name, g.value(from.inputs[i]).name);
    ASSERT_EQ(node.outputs.size(), from.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      EXPECT_EQ(view.values[node.outputs[i]].name, g.value(from.outputs[i]).name);
  }
  EXPECT_EQ(ops, g.list().size());
  ASSERT_EQ(view.outputs.size(), 1U);
  EXPECT_EQ(view.values[view.outputs[0]].name, g.value(g.output()).name);
  // Each value but a constant comes from one box, which stands before all that read it.
  std::set<std::size_t> made;
  for (const GraphView::Node& node : view.nodes) {
    for (const std::size_t input : node.inputs)
      EXPECT_TRUE(view.values[input].kind == GraphView::Kind::constant || made.contains(input)) << node.name;
    for (const std::size_t output : node.outputs) EXPECT_TRUE(made.insert(output).second) << node.name;
  }
}

// Values as the IR may hold them: any rank, scales, weights seen otherwise than they are stored.
TEST(GraphView, SaysHowAValueIsHeld) {
  Graph g;
  const ValueId x = g.input("x", DType::F32, {2, 3, 32});
  const auto weight = std::make_shared<Weight>(Weight{.name = "w", .dtype = DType::Q8_0, .shape = {5, 32}});
  const ValueId w = g.constant(weight, {.transposed = true, .as = DType::F32});
  const ValueId y = g.node(Op::MatMul, "y", {x, w});
  g.last().unit = "NPU";
  g.last().origin = "layers.4.mlp.up_proj";
  g.last().origin_op = Op::linear;
  g.last().purpose = Purpose::latent_up;
  g.set_quantization(y, {.bits = 8, .scale = 0.25, .zero = 3});
  g.set_output(y);
  const GraphView view = graph_view(g, "t", {});
  ASSERT_EQ(view.nodes.size(), 2U);
  const GraphView::Node& node = view.nodes[1];
  EXPECT_EQ(node.unit, "NPU");
  EXPECT_EQ(node.layer, 4);
  EXPECT_EQ(node.origin, "layers.4.mlp.up_proj (linear)");
  EXPECT_EQ(node.purpose, "latent_up");
  const GraphView::Value &in = view.values[node.inputs[0]], &seen = view.values[node.inputs[1]],
                         &out = view.values[node.outputs[0]];
  EXPECT_EQ(shape_text(in), "[2, 3, 32]");
  EXPECT_EQ(in.bytes, 2 * 3 * 32 * 4);
  EXPECT_EQ(in.per, "");
  EXPECT_EQ(shape_text(seen), "[32, 5]");
  EXPECT_EQ(seen.dtype, "Q8_0");
  EXPECT_EQ(seen.bytes, 5 * 34);
  EXPECT_EQ(seen.note, "read as F32; stored the other way round");
  EXPECT_EQ(shape_text(out), "[2, 3, 5]");
  EXPECT_EQ(view.facts.at(0), "1 node, 1 weight in 170 B");
  EXPECT_EQ(out.note, "kept in 8 bits, scale 0.25, zero 3");
}

TEST(GraphView, ClassesAreThoseOfTheOps) {
  const GraphView view = graph_view(testing::tiny_graph({}), "t", {});
  const auto class_of = [&](const std::string& name) {
    for (const GraphView::Node& node : view.nodes)
      if (node.name == name) return view.classes[node.cls];
    return std::string();
  };
  EXPECT_EQ(class_of("embed"), "tensor_transform");
  EXPECT_EQ(class_of("layers.0.attn.q"), "matrix");
  EXPECT_EQ(class_of("layers.0.attn.mix"), "sensitive");
  EXPECT_EQ(class_of("layers.0.mlp.act"), "elementwise");
  EXPECT_EQ(class_of("ids"), "input");
  EXPECT_EQ(class_of("layers.0.kv.k"), "state");
}

TEST(GraphView, WhatIsLeftOutIsABox) {
  const Graph g = testing::tiny_graph({});
  const auto layers = graph_layers(g, "1");
  ASSERT_TRUE(layers);
  const GraphView view = graph_view(g, "t", *layers);
  std::vector<std::string> left_out;
  for (const GraphView::Node& node : view.nodes) {
    EXPECT_NE(node.layer, 0) << node.name;
    if (node.left_out) left_out.push_back(node.name + ", " + node.op);
  }
  EXPECT_EQ(left_out, std::vector<std::string>{"layers.0.out, from layer 0"});
  EXPECT_EQ(view.facts.back(), "shown: layer 1 and what is of none; left out: 1 layer with 17 nodes");
  EXPECT_FALSE(graph_layers(g, "2"));
}

TEST(GraphStage, AnUnknownOneIsNamedWithTheNearest) {
  const Graph g = testing::tiny_graph({});
  ThreadPool pool(1);
  PassOptions options;
  options.context.data = false;
  for (const GraphStage& stage : graph_stages()) {
    const auto at = graph_at_stage(g, stage.name, options, pool);
    EXPECT_TRUE(at) << stage.name << ": " << (at ? "" : at.error().message);
  }
  const auto none = graph_at_stage(g, "importet", options, pool);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::usage);
  EXPECT_NE(none.error().message.find("did you mean imported?"), std::string::npos) << none.error().message;
}

}  // namespace
}  // namespace knapsack
