// The passes on graphs in ONNX's operators: exports of PyTorch (tests/data/onnx) and small ones written here, each
// proved; what they are for is counted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "files/npz.h"
#include "graph/decompose/unfuse.h"
#include "graph/equivalents.h"
#include "graph/rewrite.h"
#include "import/onnx.h"
#include "import/onnx_run.h"
#include "passes/fuse.h"
#include "passes/pass.h"
#include "support/support.h"

namespace knapsack {
namespace {

// Dimensions that are open get the sizes of the inputs in the .npz.
Graph imported(const std::string& name) {
  auto model = read_onnx(testing::data_path("data/onnx/" + name + ".onnx").string());
  if (!model) throw std::runtime_error(model.error().message);
  const auto values = open_npz(testing::data_path("data/onnx/" + name + ".npz").string());
  if (!values) throw std::runtime_error(values.error().message);
  auto made = graph_from_onnx(*model, pins_from(values->arrays, *model));
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(made->graph);
}

Graph parsed(const std::string& lines) {
  auto graph = graph_from_text("knapsack-graph 1\n" + lines);
  if (!graph) throw std::runtime_error(graph.error().message);
  return std::move(*graph);
}

Passed passed(const Graph& graph, const Target& target = {}, Stage to = Stage::fused) {
  ThreadPool pool(1);
  PassOptions options;
  options.context.target = target;
  options.prove = true;
  options.proof.tolerance = 1e-5;
  options.to = to;
  options.without = {"recognize"};  // decoders stay in the operators they came in
  auto made = run_passes(graph, Stage::imported, options, pool);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

std::map<Op, int> counts(const Graph& graph) {
  std::map<Op, int> counts;
  for (const Node& node : graph.list()) ++counts[node.op];
  return counts;
}

const PassReport& report(const Passed& passed, std::string_view name) {
  return *std::find_if(passed.passes.begin(), passed.passes.end(),
                       [&](const PassReport& each) { return each.name == name; });
}

void expect_same(const Graph& before, const Graph& after, double tolerance = 1e-6) {
  ThreadPool pool(1);
  const auto proof = prove_equal(before, after, {.tolerance = tolerance}, pool);
  EXPECT_TRUE(proof) << (proof ? "" : proof.error().message);
}

bool clamped(const Node& node) { return node.attrs.has(Attr::low) || node.attrs.has(Attr::high); }

TEST(Primitives, EveryExportIsProved) {
  for (const std::string name : {"resnet", "resnet-trained", "mobilenet-trained", "bert", "bert-dynamo", "vit",
                                 "llama-prefill", "qwen2-optimum", "qwen3-dynamo", "gemma3-dynamo"}) {
    const Passed made = passed(imported(name));
    for (const PassReport& each : made.passes) {
      EXPECT_EQ(each.rel_l2 < 0, each.name == "recognize") << name << ", " << each.name;
      EXPECT_LE(each.nodes_after, each.nodes_before) << name << ", " << each.name;
    }
    const auto text = graph_from_text(to_text(made.graph));
    ASSERT_TRUE(text) << name << ": " << text.error().message;
    EXPECT_EQ(to_text(*text), to_text(made.graph));
    expect_same(made.graph, unfuse(made.graph), 1e-5);
  }
}

TEST(FoldConstants, WhatConstantsAloneMake) {
  const Graph graph = parsed(
      "input %x [2, 2] F32\n"
      "constant @a [2] F32 = 1, 2\n"
      "constant @b [2] F32 = 3, -1\n"
      "constant @unknown [2] F32\n"
      "%i [2] F32 = Identity @a\n"
      "%sum [2] F32 = Add %i, @b\n"
      "%root [2] F32 = Exp %sum\n"
      "%left [1] F32, %right [1] F32 = Split %root {axis=0, splits=[1,1]}\n"
      "%kept [2] F32 = Neg @unknown\n"
      "%y [2, 2] F32 = Mul %x, %left\n"
      "%z [2, 2] F32 = Mul %y, %root\n"
      "%w [2, 2] F32 = Add %z, %kept\n"
      "%c [2] F32 = Add @a, @b\n"
      "output %w\n"
      "output %c\n");
  const auto made = pass_fold_constants(*pass_drop_training(graph, {}), {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(verify(*made));
  // An output is made by a node, and what has no data is not computed with.
  EXPECT_EQ(counts(*made), (std::map<Op, int>{{Op::Neg, 1}, {Op::Mul, 2}, {Op::Add, 2}}));
  const Value& left = made->value(made->find("left"));
  ASSERT_EQ(left.kind, ValueKind::constant);
  EXPECT_FLOAT_EQ(left.weight->f32()[0], std::exp(4.0F));
}

TEST(FoldConstants, NothingBecomesLarger) {
  const std::string rest = "%y [1024, 512] F32 = Add %x, %wide\noutput %y\n";
  const Graph large = parsed(
      "input %x [1024, 512] F32\n"
      "constant @one [] F32 = 1\n"
      "%wide [1024, 512] F32 = Expand @one {shape=[1024,512]}\n" +
      rest);
  EXPECT_EQ(counts(*pass_fold_constants(large, {}))[Op::Expand], 1);
  const Graph small = parsed(
      "input %x [8, 4] F32\n"
      "constant @one [] F32 = 1\n"
      "%wide [8, 4] F32 = Expand @one {shape=[8,4]}\n"
      "%y [8, 4] F32 = Add %x, %wide\n"
      "output %y\n");
  EXPECT_EQ(counts(*pass_fold_constants(small, {}))[Op::Expand], 0);
}

// Convolutions that end in a Relu or a Clip are one node each, with what BatchNorm was in their weights.
TEST(FuseConv, OfResNetAndMobileNet) {
  for (const std::string name : {"resnet", "resnet-trained", "mobilenet-trained"}) {
    const Graph graph = imported(name);
    const Passed made = passed(graph);
    const PassReport& fuse = report(made, "fuse-conv");
    EXPECT_LT(fuse.nodes_after, fuse.nodes_before) << name;
    EXPECT_LT(fuse.bytes_after, fuse.bytes_before) << name;
    EXPECT_EQ(counts(made.graph)[Op::BatchNormalization], 0);
    const Uses uses(made.graph);
    int ended = 0;
    for (const Node& node : made.graph.list()) {
      ended += node.op == Op::Conv && clamped(node) ? 1 : 0;
      if (node.op != Op::Relu && node.op != Op::Clip) continue;
      const int maker = uses.maker[static_cast<std::size_t>(node.inputs[0])];
      const bool behind_conv = maker >= 0 && made.graph.list()[static_cast<std::size_t>(maker)].op == Op::Conv;
      EXPECT_FALSE(behind_conv && uses.only(node.inputs[0])) << name << ": " << node.name;
    }
    EXPECT_GT(ended, 0) << name;
    expect_same(graph, made.graph, 1e-5);
  }
}

const std::string conv_relu6 =
    "input %x [1, 2, 4, 4] F32\n"
    "constant @w [2, 2, 1, 1] F32 = 3, -2, 1, 5\n"
    "constant @g [4, 2] F32 = 1, -1, 2, 0.5, 0.25, 3, -4, 1\n"
    "%c [1, 2, 4, 4] F32 = Conv %x, @w\n"
    "%six [1, 2, 4, 4] F32 = Clip %c {low=0, high=6}\n"
    "%flat [8, 4] F32 = Reshape %six {shape=[8,4]}\n"
    "%p [8, 2] F32 = Gemm %flat, @g\n"
    "%y [8, 2] F32 = Relu %p\n"
    "output %y\n";

TEST(FuseConv, Relu6AndGemm) {
  const Graph graph = parsed(conv_relu6);
  const Passed made = passed(graph);
  EXPECT_EQ(counts(made.graph), (std::map<Op, int>{{Op::Conv, 1}, {Op::Reshape, 1}, {Op::Gemm, 1}}));
  EXPECT_NE(to_text(made.graph).find("%six [1, 2, 4, 4] F32 = Conv %x, @w {low=0, high=6}"), std::string::npos)
      << to_text(made.graph);
  const Graph parts = unfuse(made.graph);
  EXPECT_EQ(counts(parts), counts(graph));
  expect_same(made.graph, parts, 0);
}

TEST(FuseConv, StaysWithinTheTarget) {
  Target tiny;
  tiny.on_chip_bytes = 3;  // two channels of halves are four
  EXPECT_EQ(counts(passed(parsed(conv_relu6), tiny).graph)[Op::Clip], 1);
  tiny.on_chip_bytes = 4;
  EXPECT_EQ(counts(passed(parsed(conv_relu6), tiny).graph)[Op::Clip], 0);
  Target plain;
  plain.has = [](const Graph&, const Node& node) { return !clamped(node); };
  EXPECT_EQ(counts(passed(parsed(conv_relu6), plain).graph)[Op::Clip], 1);
  // What somebody else reads stays.
  std::string shared = conv_relu6;
  shared += "%again [1, 2, 4, 4] F32 = Neg %c\noutput %again\n";
  EXPECT_EQ(counts(passed(parsed(shared)).graph)[Op::Clip], 1);
}

// Products whose scale is a factor of theirs.
int factors(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.list().begin(), graph.list().end(), [](const Node& node) {
    return node.op == Op::MatMul && node.attrs.has(Attr::alpha);
  }));
}

TEST(FuseScales, OfExports) {
  // One scaling behind the product a layer, or one each of q and k.
  for (const auto& [name, layers] : {std::pair{"bert", 2},
                                     {"bert-dynamo", 2},
                                     {"vit", 1},
                                     {"llama-prefill", 1},
                                     {"qwen2-optimum", 1},
                                     {"qwen3-dynamo", 1},
                                     {"gemma3-dynamo", 2}}) {
    const Passed made = passed(imported(name));
    const PassReport& fuse = report(made, "fuse-scales");
    EXPECT_LT(fuse.nodes_after, fuse.nodes_before) << name;
    EXPECT_GE(factors(made.graph), layers) << name;
    std::printf("%s: %zu -> %zu nodes\n", name, fuse.nodes_before, fuse.nodes_after);
  }
}

const std::string attention =
    "input %q [2, 3, 4] F32\n"
    "input %k [2, 3, 4] F32\n"
    "constant @root [] F32 = 0.7\n"
    "constant @two [1] F32 = 2\n"
    "constant @mask [3] F32 = 0, -1e30, 0\n"
    "%qs [2, 3, 4] F32 = Mul @root, %q0\n"
    "%ks [2, 3, 4] F32 = Mul %k0, @root\n"
    "%kt [2, 4, 3] F32 = Transpose %ks {perm=[0,2,1]}\n"
    "%scores [2, 3, 3] F32 = MatMul %qs, %kt\n"
    "%scaled [2, 3, 3] F32 = Div %scores, @two\n"
    "%masked [2, 3, 3] F32 = Add %scaled, @mask\n"
    "%after [2, 3, 3] F32 = Mul %masked, @root\n"
    "%y [2, 3, 3] F32 = Softmax %after {axis=2}\n"
    "output %y\n";

Graph attended() {
  std::string text = attention;
  text.insert(text.find("%qs"), "%q0 [2, 3, 4] F32 = Tanh %q\n%k0 [2, 3, 4] F32 = Tanh %k\n");
  return parsed(text);
}

TEST(FuseScales, BeforeAndBehindTheProductAndNotBehindTheMask) {
  const Graph graph = attended();
  const Passed made = passed(graph);
  EXPECT_EQ(report(made, "fuse-scales").nodes_before - report(made, "fuse-scales").nodes_after, 3U);
  EXPECT_EQ(counts(made.graph)[Op::Mul], 1) << "a mask is not scaled";
  const Node& product = *std::find_if(made.graph.list().begin(), made.graph.list().end(),
                                      [](const Node& node) { return node.op == Op::MatMul; });
  EXPECT_NEAR(product.attrs.f(Attr::alpha), 0.7 * 0.7 / 2, 1e-6);
  expect_same(graph, unfuse(made.graph));
}

TEST(FuseScales, StaysWithinTheTarget) {
  Target plain;
  plain.has = [](const Graph&, const Node& node) { return !node.attrs.has(Attr::alpha); };
  EXPECT_EQ(factors(passed(attended(), plain).graph), 0);
  Target tiny;
  tiny.on_chip_bytes = 5;  // a row of scores is six bytes
  EXPECT_EQ(factors(passed(attended(), tiny).graph), 0);
}

// Four queries of one number, against keys of four: the scores are more than what the scale can go to.
TEST(FuseScales, GoesToTheSmallerSideOfAPlainProduct) {
  Target plain;
  plain.has = [](const Graph&, const Node& node) { return !node.attrs.has(Attr::alpha); };
  const auto graph = [](int columns) {
    return parsed(
        fmt::format("input %q [2, 1, 3] F32\n"
                    "input %k [2, 3, {0}] F32\n"
                    "constant @s [] F32 = 4\n"
                    "%p [2, 1, {0}] F32 = MatMul %q, %k\n"
                    "%scaled [2, 1, {0}] F32 = Div %p, @s\n"
                    "%y [2, 1, {0}] F32 = Softmax %scaled {{axis=2}}\n"
                    "output %y\n",
                    columns));
  };
  const Passed made = passed(graph(8), plain);
  const PassReport& fuse = report(made, "fuse-scales");
  EXPECT_EQ(fuse.nodes_after, fuse.nodes_before);
  EXPECT_LT(fuse.bytes_after, fuse.bytes_before);
  EXPECT_NE(to_text(made.graph).find("%p/scale [2, 1, 3] F32 = Mul %q"), std::string::npos) << to_text(made.graph);
  EXPECT_EQ(to_text(passed(graph(3), plain).graph).find("= Mul"), std::string::npos) << "nothing is gained";
}

// Exports repeat KV heads for those that read them; nothing is repeated any more, in five dimensions.
TEST(GroupHeads, OfExports) {
  for (const std::string name : {"qwen2-window", "qwen2-optimum", "qwen3-dynamo", "gemma3-dynamo"}) {
    const Graph graph = imported(name);
    const Passed made = passed(graph);
    const PassReport& group = report(made, "group-heads");
    const auto wide = [](const Graph& g) {
      return std::count_if(g.values().begin(), g.values().end(), [](const Value& v) { return v.dims.size() == 5; });
    };
    std::printf("%s: %zu -> %zu nodes, %.0f -> %.0f bytes; %ld of five dimensions, %ld\n", name.c_str(),
                group.nodes_before, group.nodes_after, group.bytes_before, group.bytes_after,
                static_cast<long>(wide(graph)), static_cast<long>(wide(made.graph)));
    EXPECT_LT(group.nodes_after, group.nodes_before) << name;
    EXPECT_LT(group.bytes_after, group.bytes_before) << name;
    EXPECT_EQ(wide(graph), 9) << name;
    EXPECT_EQ(wide(made.graph), 1) << name << ": a Gather of the mask's";
    expect_same(graph, made.graph, 1e-5);
  }
}

TEST(MergeReshapes, OneLooksAtWhatThereWas) {
  const Graph graph = parsed(
      "input %x [2, 6] F32\n"
      "%n [2, 6] F32 = Neg %x\n"
      "%a [1, 2, 6] F32 = Unsqueeze %n {axes=[0]}\n"
      "%b [4, 3] F32 = Reshape %a {shape=[4,3]}\n"
      "%c [2, 6] F32 = Reshape %b {shape=[2,6]}\n"
      "%y [2, 6] F32 = Exp %c\n"
      "%z [12] F32 = Reshape %c {shape=[12]}\n"
      "%same [2, 6] F32 = Reshape %n {shape=[2,6]}\n"
      "output %y\n"
      "output %z\n"
      "output %same\n"
      "output %b\n");
  const Passed made = passed(graph, {}, Stage::canonical);
  EXPECT_EQ(counts(made.graph), (std::map<Op, int>{{Op::Neg, 1}, {Op::Exp, 1}, {Op::Reshape, 3}}))
      << to_text(made.graph);
  EXPECT_NE(to_text(made.graph).find("= Exp %n\n"), std::string::npos) << to_text(made.graph);
}

// In blocks between borders: nothing is reordered on the way, and the same comes out.
TEST(Layout, BlocksOfChannels) {
  Target target;
  target.channel_block = 8;
  for (const std::string name : {"resnet", "resnet-trained", "mobilenet-trained"}) {
    const Graph graph = imported(name);
    const Passed made = passed(graph, target);
    const int transposes = counts(made.graph)[Op::Transpose] - counts(graph)[Op::Transpose];
    int blocked = 0;
    int planes = 0;
    for (const Node& node : made.graph.list()) {
      if (node.op != Op::Conv && node.op != Op::MaxPool && node.op != Op::GlobalAveragePool) continue;
      ++(node.attrs.has(Attr::block) ? blocked : planes);
    }
    std::printf("%s: %d in blocks, %d on planes, %d reorderings\n", name.c_str(), blocked, planes, transposes);
    EXPECT_GT(blocked, 0) << name;
    EXPECT_LE(transposes, 2 + 2 * planes) << name;
    EXPECT_EQ(made.graph.outputs().size(), graph.outputs().size());
    for (std::size_t i = 0; i < graph.outputs().size(); ++i)
      EXPECT_EQ(made.graph.value(made.graph.outputs()[i]).name, graph.value(graph.outputs()[i]).name);
    const auto text = graph_from_text(to_text(made.graph));
    ASSERT_TRUE(text) << text.error().message;
    expect_same(graph, made.graph, 1e-5);
    const Graph parts = unfuse(made.graph);
    for (const Node& node : parts.list()) EXPECT_FALSE(node.attrs.has(Attr::block)) << node.name;
    expect_same(made.graph, parts);
  }
}

TEST(Layout, TheOutputOfAConvolutionKeepsItsName) {
  Target target;
  target.channel_block = 2;
  const Graph graph = parsed(
      "input %x [1, 3, 4, 5] F32\n"
      "constant @w [4, 3, 1, 1] F32 = 3, -2, 1, 5, 1, 2, 3, 4, 5, 6, 7, 8\n"
      "constant @d [4, 1, 1, 2] F32 = 1, 2, 3, 4, 5, 6, 7, 8\n"
      "constant @h [] F32 = 0.5\n"
      "%c [1, 4, 4, 5] F32 = Conv %x, @w {strides=[1,1]}\n"
      "%s [1, 4, 1, 1] F32 = GlobalAveragePool %c\n"
      "%m [1, 4, 4, 5] F32 = Mul %c, %s\n"
      "%n [1, 4, 4, 5] F32 = Mul %m, @h\n"
      "%a [1, 4, 3, 3] F32 = AveragePool %n {kernel=[2,3], pads=[0,0,0,0]}\n"
      "%y [1, 4, 3, 2] F32 = Conv %a, @d {group=4}\n"
      "output %y\n"
      "output %n\n");
  const Passed made = passed(graph, target);
  EXPECT_EQ(made.graph.value(made.graph.outputs()[0]).name, "y");
  EXPECT_EQ(made.graph.value(made.graph.outputs()[1]).name, "n");
  // One border in, of three channels and one of zeros; two out.
  EXPECT_EQ(counts(made.graph), (std::map<Op, int>{{Op::Pad, 1},
                                                   {Op::Reshape, 3},
                                                   {Op::Transpose, 3},
                                                   {Op::Conv, 2},
                                                   {Op::GlobalAveragePool, 1},
                                                   {Op::Mul, 2},
                                                   {Op::AveragePool, 1}}))
      << to_text(made.graph);
}

// Each row that has a rewriting computes what the operator does.
TEST(Equivalents, ComputeTheSame) {
  const std::string head =
      "input %x [2, 3, 4] F32\n"
      "input %z [2, 3, 4] F32\n"
      "input %c [2, 3, 4] BOOL\n"
      "constant @two [] F32 = 2\n";
  const std::string p = "%p [2, 3, 4] F32 = Softplus %x\n";
  const std::map<std::string, std::string> nodes{
      {"Neg", "%y [2, 3, 4] F32 = Neg %x"},
      {"Sub", "%y [2, 3, 4] F32 = Sub %x, %z"},
      {"Div", "%y [2, 3, 4] F32 = Div %x, %p"},
      {"Pow", "%y [2, 3, 4] F32 = Pow %x, @two"},
      {"Sqrt", "%y [2, 3, 4] F32 = Sqrt %p"},
      {"ReduceMean", "%y [2, 3, 1] F32 = ReduceMean %x {axes=[2], keepdims=1}"},
      {"ReduceSum", "%y [2, 3, 1] F32 = ReduceSum %x {axes=[2], keepdims=1}"},
      {"Softmax", "%y [2, 3, 4] F32 = Softmax %x {axis=1}"},
      {"Sigmoid", "%y [2, 3, 4] F32 = Sigmoid %x"},
      {"Tanh", "%y [2, 3, 4] F32 = Tanh %x"},
      {"Expand",
       "%one [2, 3, 1] F32 = ReduceMax %x {axes=[2], keepdims=1}\n%y [2, 3, 4] F32 = Expand %one "
       "{shape=[2,3,4]}"},
      {"Split", "%a [2, 1, 4] F32, %y [2, 2, 4] F32 = Split %x {axis=1, splits=[1,2]}\n%b [2, 1, 4] F32 = Abs %a"},
      {"Slice", "%y [2, 1, 4] F32 = Slice %x {axes=[1], starts=[1], ends=[2]}"},
      {"Unsqueeze", "%y [2, 1, 3, 4] F32 = Unsqueeze %x {axes=[1]}"},
      {"Squeeze", "%one [2, 3, 1] F32 = ReduceMax %x {axes=[2], keepdims=1}\n%y [2, 3] F32 = Squeeze %one {axes=[2]}"},
      {"Where", "%y [2, 3, 4] F32 = Where %c, %x, %z"},
  };
  const std::vector<std::pair<Op, std::string_view>> rows{
#define KNAP_EQUIVALENT(op, by, how) {Op::op, by},
#include "graph/equivalents.inc"
#undef KNAP_EQUIVALENT
  };
  for (const auto& [op, by] : rows) {
    const std::string name(op_info(op).text);
    ASSERT_TRUE(nodes.count(name) > 0) << name;
    std::string node = nodes.at(name);
    const std::string shape =
        node.substr(node.rfind("%y ") + 2, node.find("F32", node.rfind("%y ")) - node.rfind("%y ") - 2);
    const Graph graph = parsed(head + p + node + "\n%end" + shape + "F32 = Abs %y\noutput %end\n" +
                               (name == "Split" ? "output %b\n" : ""));
    Rewriter to(graph);
    bool written = false;
    for (const Node& each : graph.list()) {
      if (each.op == op) {
        written = write_equivalent(to, each, by);
        if (written) continue;
      }
      to.copy(each);
    }
    const Graph made = to.finish();
    if (name == "Slice" && by == "MatMul") {  // no one writes it
      EXPECT_FALSE(written);
      continue;
    }
    EXPECT_TRUE(written) << name << " by " << by;
    if (by != "Sigmoid Mul Add" && name != "Expand") {
      EXPECT_EQ(counts(made)[op], 0) << name << " by " << by;
    }
    ASSERT_TRUE(verify(made)) << verify(made).error().message;
    expect_same(graph, made);
  }
}

// The device takes no Pow, no Sub, no Erf: the first two are written otherwise, the last one runs on the CPU.
TEST(Legalize, EquivalentThenTheCpu) {
  Target target;
  target.judge = [](const Graph& graph) {
    std::vector<Placement> verdicts;
    for (const Node& node : graph.list()) {
      Placement v;
      if (node.op == Op::Sub) v = {.kind = Placement::Kind::replace, .by = "Mul Add"};
      if (node.op == Op::Pow) v = {.kind = Placement::Kind::replace, .by = "Mul"};
      if (node.op == Op::Erf) v = {.kind = Placement::Kind::cpu, .why = "refused"};
      verdicts.push_back(std::move(v));
    }
    return verdicts;
  };
  target.unit = "npu";
  const Graph graph = imported("bert");
  const Passed made = passed(graph, target);
  auto ops = counts(made.graph);
  EXPECT_GT(counts(graph)[Op::Erf], 0);
  EXPECT_EQ(ops[Op::Sub], 0);
  EXPECT_EQ(ops[Op::Pow], 0);
  for (const Node& node : made.graph.list()) EXPECT_EQ(node.unit, node.op == Op::Erf ? "cpu" : "npu") << node.name;
  EXPECT_TRUE(verify(made.graph, Stage::partitioned));
}

}  // namespace
}  // namespace knapsack
