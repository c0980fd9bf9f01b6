// The text form: there and back for every op; a malformed text is an error with its line.
#include <gtest/gtest.h>

#include <set>

#include "graph/every_op.h"

namespace knapsack {
namespace {

TEST(GraphText, EveryOpGoesThereAndBack) {
  for (const Graph& g : {testing::every_op_graph(), testing::tiny_graph({})}) {
    ASSERT_TRUE(verify(g)) << verify(g).error().message;
    const std::string text = to_text(g);
    auto back = graph_from_text(text);
    ASSERT_TRUE(back) << back.error().message << "\n" << text;
    EXPECT_EQ(to_text(*back), text);
    ASSERT_EQ(back->list().size(), g.list().size());
    for (std::size_t i = 0; i < g.list().size(); ++i) EXPECT_EQ(back->list()[i].attrs, g.list()[i].attrs);
  }
}

TEST(GraphText, TheGraphOfEveryOpHasEveryOp) {
  std::set<Op> seen;
  const Graph g = testing::every_op_graph();
  for (const Node& node : g.list()) seen.insert(node.op);
  // Primitives, what goes with them and what passes make are in the graphs of tests/passes and tests/import.
  for (const OpInfo& info : all_ops()) {
    const bool elsewhere = info.primitive || info.op == Op::positions || info.op == Op::kv_read ||
                           info.op == Op::fused_linear || info.op == Op::rope_cached;
    if (!elsewhere) {
      EXPECT_TRUE(seen.contains(info.op)) << info.text << " is not in every_op.h";
    }
  }
}

TEST(GraphText, IsReadable) {
  const std::string text = to_text(testing::tiny_graph({}));
  EXPECT_NE(text.find("input %ids [T, 1] I32\n"), std::string::npos);
  EXPECT_NE(text.find("constant @layers.0.attn.q.weight [24, 24] F32\n"), std::string::npos);
  EXPECT_NE(text.find("state $layers.1.kv.v [12]\n"), std::string::npos);
  EXPECT_NE(text.find("%layers.0.attn.q [T, 24] F32 = linear %layers.0.attn_norm, @layers.0.attn.q.weight\n"),
            std::string::npos);
  EXPECT_NE(text.find("%layers.0.kv.k.write = kv_write %layers.0.attn.k_rope, $layers.0.kv.k\n"), std::string::npos);
  EXPECT_NE(text.find("%layers.0.attn_norm [T, 24] F32 = rms_norm %embed, @layers.0.attn_norm.weight {eps=1e-05}\n"),
            std::string::npos);
  EXPECT_NE(text.find("%last [S, 24] F32 = select_rows %norm\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("output %logits\n"));
}

constexpr std::string_view good =
    "# a comment\n"
    "knapsack-graph 1\n"
    "input %ids [T, 1] I32\n"
    "constant @w [8, 4] F32\n"
    "state $kv [4]\n"
    "%x [T, 4] F32 = embed %ids, @w {scale=2}  # four wide\n"
    "\n"
    "%y [S, 4] F32 = select_rows %x\n"
    "%z [S, 8] F32 = linear %y, @w\n"
    "output %z\n";

TEST(GraphText, AllowsCommentsBlankLinesAndCarriageReturns) {
  auto g = graph_from_text(good);
  ASSERT_TRUE(g) << g.error().message;
  std::string crlf;
  for (const char c : good) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(graph_from_text(crlf));
}

// Replaces line `number` of the good text and expects an error that names it and says `what`.
void refuse(int number, std::string_view line, std::string_view what) {
  std::string text;
  std::size_t begin = 0;
  for (int i = 1; begin < good.size(); ++i) {
    const std::size_t end = good.find('\n', begin);
    text += i == number ? std::string(line) : std::string(good.substr(begin, end - begin));
    text += "\n";
    begin = end + 1;
  }
  auto g = graph_from_text(text);
  ASSERT_FALSE(g) << line;
  EXPECT_EQ(g.error().code, Code::bad_input);
  EXPECT_NE(g.error().message.find("line " + std::to_string(number) + ": "), std::string::npos) << g.error().message;
  EXPECT_NE(g.error().message.find(what), std::string::npos) << g.error().message;
}

TEST(GraphText, RefusesMalformedLinesByNumber) {
  refuse(2, "knapsack-graph 2", "expected 'knapsack-graph 1'");
  refuse(2, "hello", "expected 'knapsack-graph 1'");
  refuse(3, "input %ids [T, 1, 1] I32", "dimension of -1");
  refuse(3, "input %ids [T, 1] Q8_0", "cannot be of Q8_0");
  refuse(3, "inputs %ids [T, 1] I32", "found 'inputs'");
  refuse(4, "constant @w [8, 4] F33", "'F33' is no storage format");
  refuse(4, "constant @w [8, 0] F32", "dimension of 0");
  refuse(4, "constant @w [8, -4] F32", "dimension of -4; expected 1 or more");
  refuse(4, "constant @w [T, 4] F32", "are numbers");
  refuse(4, "constant @w [2, 2, 2, 2, 2, 2, 2, 2, 2] F32", "at most 8");
  refuse(4, "constant @w [2, 2] F32 = 1, 2, 3", "expected ','");
  refuse(4, "constant @w [2, 2] Q8_0 = 1", "whole blocks of 32");
  refuse(4, "constant @w [8, 4] F32 = 1", "only small");
  refuse(4, "constant @w [1073741824, 1073741824, 1073741824] F32", "too many");
  refuse(4, "constant @w [99999999999999999999] F32", "expected a number");
  refuse(4, "constant @w [8, 5] Q4_0", "whole blocks of 32");
  refuse(4, "constant @w [8, 4", "expected ']'");
  refuse(4, "constant @w [8, 4] F32 lines 0", "lines have 1 to");
  refuse(4, "constant @w [8, 4] F32 lines", "expected a number");
  refuse(4, "constant @w [8, 4] F32 lines 128 transposed", "end of the line");
  refuse(4, "constant @\"w [8, 4] F32", "does not end");
  refuse(4, "constant @\"\\xg0\" [8, 4] F32", "hexadecimal");
  refuse(4, "constant @\"\\x\" [8, 4] F32", "hexadecimal");
  refuse(4, "constant @ids [8, 4] F32", "defined twice");
  refuse(4, "constant @\"\" [8, 4] F32", "names have");
  refuse(5, "state $kv [0]", "dimension of 0");
  refuse(5, "state $kv [T, 4]", "context, columns");
  refuse(5, "state $kv [4] F16", "end of the line");
  refuse(5, "state $kv [4] channel_last", "end of the line");
  refuse(6, "%x [T, 5] F32 = embed %ids, @w", "embed makes %x [T, 4] F32, found %x [T, 5] F32");
  refuse(6, "%x = embed %ids, @w", "found %x");
  refuse(6, "%x [T, 4] F32 = embedding %ids, @w", "'embedding' is no op");
  refuse(6, "%x [T, 4] F32 = embed %ids", "inputs");
  refuse(6, "%x [T, 4] F32 = embed %ids, %w", "'w' is written @w");
  refuse(6, "%x [T, 4] F32 = embed %ids, @v", "'v' is not defined above");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {color=2}", "'color' is no attribute");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {eps=2}", "has no attribute eps");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {scale=1, scale=2}", "given twice");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {scale=inf}", "finite");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {scale=nan}", "finite");
  refuse(6, "%x [T, 4] F32 = embed %ids, @w {scale=", "expected a number");
  refuse(6, "%x [T, 4] F32, %x2 [T, 4] F32 = embed %ids, @w", "found 2 names");
  refuse(8, "%y [S, 4] F32 = select_rows $kv", "must be an activation");
  refuse(10, "output @w %z", "end of the line");
}

TEST(GraphText, RefusesWholesThatDoNotHold) {
  for (const std::string_view text : {"", "\n\n", "knapsack-graph 1\n", "knapsack-graph 1\ninput %i [T, 1] I32\n",
                                      "knapsack-graph 1\ninput %i [T, 1] I32\noutput %i\n"}) {
    auto g = graph_from_text(text);
    ASSERT_FALSE(g);
    EXPECT_EQ(g.error().code, Code::bad_input);
  }
}

// Every prefix and a thousand one-byte changes: an error or a graph, never a crash.
TEST(GraphText, SurvivesDamage) {
  const std::string text = to_text(testing::every_op_graph());
  for (std::size_t n = 0; n < text.size(); n += 7) (void)graph_from_text(std::string_view(text).substr(0, n));
  testing::Noise noise(3);
  for (int i = 0; i < 1000; ++i) {
    std::string damaged = text;
    const auto at = static_cast<std::size_t>((noise.next() + 1) / 2 * static_cast<float>(text.size() - 1));
    damaged[at] = static_cast<char>(32 + static_cast<int>((noise.next() + 1) * 47));
    auto g = graph_from_text(damaged);
    if (!g) continue;
    const std::string again = to_text(*g);
    EXPECT_EQ(to_text(*graph_from_text(again)), again);
  }
}

}  // namespace
}  // namespace knapsack
