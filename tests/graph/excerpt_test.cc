// A part of a graph as text: the nodes asked for, what they read, and a comment for what is not there.
#include <gtest/gtest.h>

#include "graph/layer_name.h"
#include "graph/tiny.h"

namespace knapsack {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(GraphExcerpt, HasTheNodesAskedForAndWhatTheyRead) {
  const Graph g = testing::tiny_graph({});
  const std::string text = to_text(g, [](const Node& node) { return layer_of(node.name) == 1; });
  EXPECT_EQ(count(text, "\n%layers.1."), 17U) << text;
  EXPECT_EQ(count(text, "\n%"), 17U) << text;
  EXPECT_EQ(count(text, "constant @layers.1."), 9U) << text;
  EXPECT_EQ(count(text, "constant @inv_freq"), 1U) << text;
  EXPECT_EQ(count(text, "constant "), 10U) << text;
  EXPECT_EQ(count(text, "state $layers.1."), 2U) << text;
  EXPECT_EQ(count(text, "state "), 2U) << text;
  // Said once, though two nodes read it.
  EXPECT_EQ(count(text, "\n# left out: %layers.0.out [T, 24] F32\n"), 1U) << text;
  EXPECT_EQ(count(text, "input "), 0U) << text;
  EXPECT_EQ(count(text, "output "), 0U) << text;
  const auto back = graph_from_text(text);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("a part of a graph"), std::string::npos);
}

TEST(GraphExcerpt, OfAllNodesIsTheWhole) {
  const Graph g = testing::tiny_graph({});
  EXPECT_EQ(to_text(g, [](const Node&) { return true; }), to_text(g));
}

}  // namespace
}  // namespace knapsack
