// verify() and the shape rules: each rule, broken by one line of a graph that is right otherwise.
#include <gtest/gtest.h>

#include "graph/every_op.h"

namespace knapsack {
namespace {

// The rest of a graph, so that only the node under test can be wrong. x is [T, 8], r [T, 4], ids are router's.
std::string around(std::string_view node) {
  return "knapsack-graph 1\n"
         "input %ids [T, 1] I32\n"
         "constant @table [16, 8] F32\n"
         "constant @square [8, 8] F32\n"
         "constant @narrow [4, 8] F32\n"
         "constant @wide [8, 12] F32\n"
         "constant @half [8, 8] F16\n"
         "constant @v8 [8] F32\n"
         "constant @v4 [4] F32\n"
         "constant @v4h [4] F16\n"
         "constant @i8 [8] I32\n"
         "constant @experts [4, 6, 8] F32\n"
         "constant @down [4, 8, 6] F32\n"
         "state $kv [8]\n"
         "state $kv2 [8]\n"
         "%x [T, 8] F32 = embed %ids, @table\n"
         "%w [T, 4] I32, %w.1 [T, 4] F32 = router %x {experts=8, top_k=4}\n"
         "%s [S, 8] F32 = select_rows %x\n" +
         std::string(node) +
         "\n%logits [S, 16] F32 = linear %s, @table\n"
         "output %logits\n";
}

void accept(std::string_view node) {
  auto g = graph_from_text(around(node));
  EXPECT_TRUE(g) << node << "\n" << g.error().message;
}

void refuse(std::string_view node, std::string_view what) {
  auto g = graph_from_text(around(node));
  ASSERT_FALSE(g) << node;
  EXPECT_EQ(g.error().code, Code::bad_input);
  EXPECT_NE(g.error().message.find(what), std::string::npos) << node << "\n" << g.error().message;
}

TEST(Shapes, RmsNorm) {
  accept("%y [T, 8] F32 = rms_norm %x, @v8 {eps=1e-6}");
  accept("%y [T, 8] F32 = rms_norm %x, @v4 {eps=1e-6, offset=1, width=4}");
  refuse("%y [T, 8] F32 = rms_norm %x, @v8", "needs the attribute eps");
  refuse("%y [T, 8] F32 = rms_norm %x, @v8 {eps=1, width=3}", "multiple of width");
  refuse("%y [T, 8] F32 = rms_norm %x, @v8 {eps=1, width=0}", "at least 1");
  refuse("%y [T, 8] F32 = rms_norm %x, @v8 {eps=1, width=-1}", "whole number");
  refuse("%y [T, 8] F32 = rms_norm %x, @v4h {eps=1, width=4}", "stored as F32");
  refuse("%y [T, 8] F32 = rms_norm %x, @v4 {eps=1}", "vector of 8");
  refuse("%y [T, 8] F32 = rms_norm %x, @square {eps=1}", "vector of 8");
  refuse("%y [T, 4] F32 = rms_norm %w {eps=1}", "must be F32");
}

TEST(Shapes, Linear) {
  accept("%y [T, 8] F32 = linear %x, @half, @v8");
  refuse("%y [T, 8] F32 = linear %x, @wide", "columns of x must be 12");
  refuse("%y [T, 8] F32 = linear %x, @square, @v4", "vector of 8");
  refuse("%y [T, 8] F32 = linear %x, @experts", "2 dimensions");
  refuse("%y [T, 8] F32 = linear %x, %x", "must be a constant");
}

TEST(Shapes, HeadLinear) {
  accept(
      "%y [T, 24] F32 = head_linear %x, @wide {heads=2, in_stride=4, in_offset=1, head_rows=4, row_offset=1, rows=3, "
      "transposed=1}");
  refuse("%y [T, 4] F32 = head_linear %x, @wide {heads=2, in_stride=4, head_rows=4, rows=2}", "past the end of a head");
  refuse(
      "%y [T, 24] F32 = head_linear %x, @wide {heads=2, in_stride=4, head_rows=4, row_offset=2, rows=3, transposed=1}",
      "past the end of a head's");
  refuse("%y [T, 24] F32 = head_linear %x, @wide {heads=2, in_stride=4, head_rows=7, rows=3, transposed=1}",
         "past the end of w");
  refuse("%y [T, 24] F32 = head_linear %x, @wide {heads=3, in_stride=4, head_rows=2, rows=2, transposed=1}",
         "columns of x must be 12");
  refuse("%y [T, 24] F32 = head_linear %x, @wide {heads=2, in_stride=4, head_rows=4, rows=2, transposed=2}",
         "at most 1");
}

TEST(Shapes, HeadConcatAndGather) {
  accept("%y [T, 12] F32 = head_concat %x, %x {heads=2, a_cols=4, b_stride=4, b_offset=1, b_cols=2}");
  refuse("%y [T, 12] F32 = head_concat %x, %x {heads=2, a_cols=4, b_stride=4, b_offset=3, b_cols=2}", "past the end");
  refuse("%y [T, 12] F32 = head_concat %x, %x {heads=2, a_cols=3, b_stride=4, b_cols=2}", "columns of a");
  refuse("%y [T, 12] F32 = head_concat %x, %s {heads=2, a_cols=4, b_stride=4, b_cols=2}", "mixes rows");
  accept("%y [T, 8] F32 = gather_cols %x, @i8");
  refuse("%y [T, 8] F32 = gather_cols %x, @v8", "stored as I32");
}

TEST(Shapes, Rope) {
  accept("%y [T, 8] F32 = rope %x, @v4 {heads=1, stride=8, rotary=8}");
  refuse("%y [T, 8] F32 = rope %x, @v4 {heads=1, stride=8, begin=1, rotary=8}", "past the end of a head");
  refuse("%y [T, 8] F32 = rope %x, @v4 {heads=1, stride=8, rotary=7}", "even");
  refuse("%y [T, 8] F32 = rope %x, @v4 {heads=1, stride=8, rotary=6}", "vector of 3");
  refuse("%y [S, 8] F32 = rope %s, @v4 {heads=1, stride=8, rotary=8}", "all tokens");
}

TEST(Shapes, StatesAndAttention) {
  const std::string attrs = "{heads=2, kv_heads=1, head_dim=4, scale=1}";
  accept("%k = kv_write %x, $kv\n%v = kv_write %x, $kv2\n%y [T, 8] F32 = attention %x, %k, %v " + attrs);
  refuse("%k = kv_write %x, $kv {col=1}", "past the end of the state");
  refuse("%k = kv_write %s, $kv", "all tokens");
  refuse("%k = kv_write %x, %x", "must be a state");
  refuse("%k = kv_write %x, $kv\n%y [T, 8] F32 = attention %x, $kv, %k " + attrs, "older version");
  refuse("%k = kv_write %x, $kv\n%k2 = kv_write %x, %k\n%y [T, 8] F32 = attention %x, %k, %k2 " + attrs,
         "older version");
  refuse("%k = kv_write %x, $kv\n%y [T, 8] F32 = attention %x, %k, %k {heads=2, kv_heads=3, head_dim=4, scale=1}",
         "multiple of kv_heads");
  refuse("%k = kv_write %x, $kv\n%y [T, 8] F32 = attention %x, %k, %k {heads=2, kv_heads=1, head_dim=3, scale=1}",
         "columns of q");
  refuse(
      "%k = kv_write %x, $kv\n%y [T, 8] F32 = attention %x, %k, %k {heads=1, kv_heads=1, head_dim=8, v_dim=9, scale=1}",
      "past the end of the v state");
  refuse(
      "%k = kv_write %x, $kv\n%y [T, 8] F32 = attention %x, %k, %k {heads=4, kv_heads=2, head_dim=2, v_dim=4, "
      "v_stride=5, scale=1}",
      "past the end of the v state");
}

TEST(Shapes, Elementwise) {
  accept("%y [T, 8] F32 = add %x, %x");
  refuse("%y [T, 8] F32 = add %x, %w.1", "columns of b must be 8");
  refuse("%y [T, 8] F32 = add %x, %s", "mixes rows");
  refuse("%y [T, 8] F32 = gated_act %x, %w.1", "columns of up");
  refuse("%y [T, 8] F32 = gated_act %x, %x {act=3}", "at most 2");
  refuse("%y [T, 8] F32 = sigmoid_scale %x, %x", "columns of gate must be 1");
  refuse("%y [T, 8] F32 = scale %x", "needs the attribute scale");
  refuse("%y [T, 8] F32 = softcap %x {softcap=0}", "above 0");
  refuse("%y [S, 8] F32 = select_rows %s", "all tokens");
}

TEST(Shapes, Experts) {
  accept(
      "%q [T, 8] I32, %q.1 [T, 8] F32 = router %x, @v8 {experts=8, top_k=8, score=1, groups=2, top_groups=1, "
      "group_score=1}");
  refuse("%q [T, 9] I32, %q.1 [T, 9] F32 = router %x {experts=8, top_k=9}", "more experts than there are");
  refuse("%q [T, 2] I32, %q.1 [T, 2] F32 = router %x {experts=7, top_k=2}", "columns of logits must be 7");
  refuse("%q [T, 2] I32, %q.1 [T, 2] F32 = router %x {experts=8, top_k=2, groups=3}", "evenly");
  refuse("%q [T, 2] I32, %q.1 [T, 2] F32 = router %x {experts=8, top_k=2, groups=2, top_groups=3}", "more groups");
  refuse("%q [T, 2] I32, %q.1 [T, 2] F32 = router %x {experts=8, top_k=2, groups=8, top_groups=3, group_score=1}",
         "two");
  refuse("%q [T, 2] I32, %q.1 [T, 2] F32 = router %x, @v4 {experts=8, top_k=2}", "vector of 8");
  const std::string route =
      "%g [T, 4] F32 = linear %x, @narrow\n%c [T, 2] I32, %c.1 [T, 2] F32 = router %g {experts=4, top_k=2}\n";
  accept(route + "%y [T, 8] F32 = moe %x, %c, %c.1, @experts, @experts, @down {top_k=2}");
  refuse("%y [T, 8] F32 = moe %x, %w, %w.1, @experts, @experts, @down {top_k=4}", "chooses among 8 experts");
  refuse("%y [T, 8] F32 = moe %x, %w, %w.1, @experts, @experts, @experts {top_k=4}", "needs down [E,H,F]");
  refuse("%y [T, 8] F32 = moe %x, %w, %w.1, @experts, @down, @down {top_k=4}", "one shape");
  refuse("%y [T, 8] F32 = moe %x, %w, %w.1, @experts, @experts, @down {top_k=3}", "columns of ids must be 3");
  refuse("%y [T, 8] F32 = moe %w.1, %w, %w.1, @experts, @experts, @down {top_k=4}", "columns of gate must be 4");
}

// Attributes that passes put on products and pools.
TEST(Shapes, WhatPassesFused) {
  const auto made = [](std::string_view node) {
    return graph_from_text(
        "knapsack-graph 1\n"
        "input %x [1, 2, 5, 5, 4] F32\n"
        "input %q [2, 3] F32\n"
        "constant @w [12, 8, 3, 3] F32\n"
        "constant @odd [10, 8, 3, 3] F32\n"
        "constant @depth [8, 1, 3, 3] F32\n"
        "constant @m [3, 5] F32\n" +
        std::string(node) + "\noutput %y\n");
  };
  const auto accepts = [&](std::string_view node) {
    const auto graph = made(node);
    EXPECT_TRUE(graph) << node << "\n" << (graph ? "" : graph.error().message);
  };
  const auto refuses = [&](std::string_view node, std::string_view what) {
    const auto graph = made(node);
    ASSERT_FALSE(graph) << node;
    EXPECT_NE(graph.error().message.find(what), std::string::npos) << node << "\n" << graph.error().message;
  };
  accepts("%y [1, 3, 3, 3, 4] F32 = Conv %x, @w {block=4, low=0, high=6}");
  accepts("%y [1, 2, 3, 3, 4] F32 = Conv %x, @depth {block=4, group=8}");
  accepts("%y [1, 2, 2, 2, 4] F32 = MaxPool %x {kernel=[2,2], strides=[2,2], block=4}");
  accepts("%y [1, 2, 1, 1, 4] F32 = GlobalAveragePool %x {block=4}");
  accepts("%y [2, 5] F32 = MatMul %q, @m {alpha=0.5}");
  accepts("%y [2, 5] F32 = Gemm %q, @m {low=0}");
  refuses("%y [1, 3, 3, 3, 4] F32 = Conv %x, @w {block=2}", "whole blocks of channels");
  refuses("%y [1, 3, 3, 3, 4] F32 = Conv %x, @w {block=1}", "whole blocks of channels");
  refuses("%y [1, 3, 3, 3, 4] F32 = Conv %x, @odd {block=4}", "makes whole blocks");
  refuses("%y [1, 3, 3, 3, 4] F32 = Conv %x, @depth {block=4}", "as many channels");
  refuses("%y [1, 2, 2, 2, 4] F32 = MaxPool %x {kernel=[2,2,1], block=4}", "a kernel for each dimension");
  refuses("%y [2, 3] F32 = GlobalAveragePool %q {block=3}", "takes 4 to 6 dimensions");
  refuses("%y [2, 5] F32 = MatMul %q, @m {low=0}", "no attribute low");
}

TEST(Verify, TheOutputIsLogitsOfSelectedRows) {
  for (const std::string_view output : {"%x", "%ids", "%w", "@table", "$kv"}) {
    std::string text = around("");
    text.replace(text.find("output %logits"), 14, "output " + std::string(output));
    auto g = graph_from_text(text);
    ASSERT_FALSE(g);
    const bool computed = output == "%x" || output == "%w";
    EXPECT_NE(g.error().message.find(computed ? "must be F32 logits" : "made by no node"), std::string::npos)
        << g.error().message;
  }
}

TEST(Verify, WhatIsUsedAsAnIndexIsOne) {
  refuse("%y [T, 8] F32 = embed %w, @table", "columns of ids");
  refuse("%q [T, 1] I32, %q.1 [T, 1] F32 = router %x {experts=8, top_k=1}\n%y [T, 8] F32 = embed %q, @table",
         "must be the graph's input");
  refuse("%y [T, 8] F32 = embed %ids, @square", "8 rows for 16 logits");
  Graph g;
  const ValueId x = g.node(
      Op::embed, "x", {g.input("ids", DType::I32, {tokens_dim, 1}), g.constant(testing::random_weight("t", {8, 8}))});
  auto index = std::make_shared<Weight>(*testing::index_constant("index", 8));
  std::vector<std::int32_t> values{0, 1, 2, 3, 4, 5, 6, 8};
  index->slabs = {reinterpret_cast<const std::byte*>(values.data())};
  const ValueId y = g.node(Op::gather_cols, "y", {x, g.constant(index)});
  g.set_output(g.node(Op::select_rows, "z", {y}));
  const auto outside = verify(g);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("index 7 of 'index' is 8, there are 8 columns"), std::string::npos);
  values[7] = 7;
  EXPECT_TRUE(verify(g));
}

TEST(Verify, AcceptsWhatTheBuildersMake) {
  EXPECT_TRUE(verify(testing::every_op_graph()));
  EXPECT_TRUE(verify(testing::tiny_graph({})));
  EXPECT_FALSE(verify(Graph{}));
}

TEST(GraphBuilder, AMisfitDiesNamingTheRule) {
  Graph g;
  const ValueId ids = g.input("ids", DType::I32, {tokens_dim, 1});
  const ValueId x = g.node(Op::embed, "x", {ids, g.constant(testing::random_weight("t", {4, 8}))});
  EXPECT_DEATH(g.node(Op::linear, "y", {x, g.constant(testing::random_weight("w", {3, 9}))}),
               "'y': linear columns of x must be 9, found 8");
  EXPECT_DEATH(g.node(Op::scale, "x", {x}, Attrs().set(Attr::scale, 1.0)), "'x' is new");
}

TEST(GraphBuilder, TheSameWeightIsOneConstant) {
  Graph g;
  const auto weight = testing::random_weight("t", {4, 8});
  EXPECT_EQ(g.constant(weight), g.constant(weight));
}

}  // namespace
}  // namespace knapsack
