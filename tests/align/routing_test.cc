// Routers that choose other experts: through noise, which is no fault and hides none, and through a fault.
#include "align/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "align/golden_graph.h"
#include "align/plant.h"

namespace knapsack::testing {
namespace {

using Numbers = std::vector<std::int32_t>;
using Floats = std::vector<float>;

TEST(Routing, OtherExpertsAndTheirMargin) {
  const Floats scores{0.5F, 2.0F, 1.0F, 1.25F};
  const auto same = disagreement(Numbers{1, 3}, Numbers{3, 1}, scores);
  EXPECT_TRUE(same.a.empty() && same.b.empty());
  const auto other = disagreement(Numbers{1, 3}, Numbers{1, 2}, scores);
  EXPECT_EQ(other.a, Numbers{3});
  EXPECT_EQ(other.b, Numbers{2});
  EXPECT_EQ(other.margin, 0.25);
  EXPECT_EQ(disagreement(Numbers{1, 3}, Numbers{0, 2}, scores).margin, 1.5);  // all had to change places
  EXPECT_LT(disagreement(Numbers{1}, Numbers{2}, {}).margin, 0);
}

TEST(Routing, WeightsInTheOrderOfTheOther) {
  EXPECT_EQ(in_order_of(Numbers{1, 3, 2}, Numbers{2, 1, 3}, Floats{0.2F, 0.1F, 0.3F}), (Floats{0.1F, 0.3F, 0.2F}));
  EXPECT_EQ(in_order_of(Numbers{1, 3}, Numbers{5, 1}, Floats{0.5F, 0.1F}), (Floats{0.1F, 0.5F}));
  EXPECT_EQ(in_order_of(Numbers{1, 3}, Numbers{1, 1}, Floats{0.5F, 0.1F}), (Floats{0.5F, 0.0F}));  // a broken router
  const Dense both = dense(Numbers{1, 3}, Floats{0.75F, 0.25F}, Numbers{3, 4}, Floats{0.5F, 0.5F});
  EXPECT_EQ(both.a, (Floats{0.75F, 0.25F, 0}));
  EXPECT_EQ(both.b, (Floats{0, 0.5F, 0.5F}));
}

// Two experts of one layer that always have the same score: the lowest number wins.
const std::string layer = "layers.1.mlp.";
constexpr std::size_t first = 2, second = 5;

void tie(Floats& rows, float by) {
  const std::size_t width = rows.size() / 8;
  for (std::size_t i = 0; i < width; ++i) rows[second * width + i] = by * rows[first * width + i];
}

Graph tied(const Graph& graph, float by) {
  return edited(graph, [&](Node& node, Graph& to) {
    if (node.name == layer + "router") alter(node, to, 1, [&](Floats& rows) { tie(rows, by); });
  });
}

// The router reads other scores than those that are compared.
Graph nudged_unseen(const Graph& graph, float by, bool swapped = false) {
  return edited(graph, [&](Node& node, Graph& to) {
    if (node.name == layer + "router") alter(node, to, 1, [](Floats& rows) { tie(rows, 1); });
    if (node.name == layer + "experts") {
      Node scores;
      scores.name = layer + "unseen";
      for (const Node& each : graph.list())
        if (each.name == layer + "router")
          scores.inputs = {to.find(layer.substr(0, layer.size() - 1) + "_norm"),
                           to.constant(graph.value(each.inputs[1]).weight)};
      alter(scores, to, 1, [&](Floats& rows) { tie(rows, by); });
      node.inputs[0] = to.node(Op::linear, scores.name, scores.inputs);
    }
    if (swapped && node.name == layer + "routed")
      for (const std::size_t input : {3, 4, 5})
        alter(node, to, input, [&](Floats& values) {
          const auto size = static_cast<std::ptrdiff_t>(values.size()) / 8;
          std::swap_ranges(values.begin() + size, values.begin() + 2 * size, values.begin() + 3 * size);
        });
  });
}

const AlignedRouter& router(const Alignment& found) {
  const auto at = std::find_if(found.routers.begin(), found.routers.end(),
                               [](const AlignedRouter& each) { return each.name == layer + "experts"; });
  if (at == found.routers.end()) throw std::runtime_error("no router");
  return *at;
}

constexpr float nudge = 1.000003F;

TEST(AlignRouting, AFlipThroughNoiseIsToldAndNothingIsBorn) {
  const auto [graph, ids] = golden_graph("qwen3-moe");
  const Graph a = tied(graph, 1), b = tied(graph, nudge);
  const auto found = align(*source(a, "A"), *source(b, "B"), {ids}, {}).value();
  EXPECT_EQ(born(found), Names{});
  const AlignedRouter& at = router(found);
  EXPECT_EQ(at.tokens, static_cast<std::int64_t>(ids.size()));
  ASSERT_GT(at.flipped, 0);
  EXPECT_EQ(at.own, 0);  // on A's scores its choice is A's
  EXPECT_EQ(at.unexplained, 0);
  ASSERT_EQ(static_cast<std::int64_t>(at.flips.size()), at.flipped);
  for (const RouterFlip& flip : at.flips) {
    EXPECT_EQ(flip.a, Numbers{first});
    EXPECT_EQ(flip.b, Numbers{second});
    EXPECT_EQ(flip.margin, 0);
    EXPECT_EQ(flip.token, ids[static_cast<std::size_t>(flip.position)]);
    EXPECT_TRUE(flip.noise_alone);
  }
  // Which B meets all the same.
  EXPECT_GT(node(found, layer + "routed").free.rel_l2, 0.01);
}

TEST(AlignRouting, WhatComesAfterAFlipIsComparedOnTheSameExperts) {
  const auto [graph, ids] = golden_graph("qwen3-moe");
  const Graph a = tied(graph, 1);
  const auto found = align(*source(a, "A"), *source(nudged_unseen(graph, nudge), "B"), {ids}, {}).value();
  EXPECT_EQ(born(found), Names{});
  EXPECT_GT(router(found).own, 0);
  EXPECT_EQ(router(found).unexplained, 0);
  EXPECT_EQ(node(found, layer + "routed").born_rel_l2, 0);
  // And a fault there is found beside the flips.
  const auto swapped = align(*source(a, "A"), *source(nudged_unseen(graph, nudge, true), "B"), {ids}, {}).value();
  EXPECT_EQ(born(swapped), Names{layer + "routed"});
  EXPECT_FALSE(swapped.passed);
}

TEST(AlignRouting, AChoiceThatNoiseDoesNotExplainIsBornInTheRouter) {
  const auto [graph, ids] = golden_graph("qwen3-moe");
  const Graph a = tied(graph, 1);
  const auto found = align(*source(a, "A"), *source(nudged_unseen(graph, -3), "B"), {ids}, {}).value();
  EXPECT_EQ(born(found), Names{layer + "experts.1"});
  EXPECT_FALSE(found.passed);
  EXPECT_GT(router(found).own, 0);
  EXPECT_GT(router(found).unexplained, 0);
}

// The same experts in another order are the same.
TEST(AlignRouting, TheOrderOfExpertsIsNoMatter) {
  for (const char* name : {"qwen2-moe", "qwen3-moe", "deepseek-v2-groups", "deepseek-v3"}) {
    SCOPED_TRACE(name);
    const auto [graph, ids] = golden_graph(name);
    Graph reversed = edited(graph, [](Node&, Graph&) {});
    class Reversed final : public Wrapped {
     public:
      using Wrapped::Wrapped;
      Result<void> run(std::span<const std::int32_t> ids, std::int64_t from, Lane lane, const Visit& visit) override {
        const auto reverse = [](auto* data, std::int64_t rows, std::int64_t cols) {
          for (std::int64_t row = 0; row < rows; ++row) std::reverse(data + row * cols, data + (row + 1) * cols);
        };
        Visit turned;
        turned.values = [&](std::string_view of, std::int64_t rows, std::int64_t cols, float* data) {
          const bool weights = std::any_of(choices().begin(), choices().end(),
                                           [&](const SourceChoice& each) { return each.weights == of; });
          if (weights) reverse(data, rows, cols);
          visit.values(of, rows, cols, data);
        };
        turned.choices = [&](std::string_view of, std::int64_t rows, std::int64_t cols, std::int32_t* data) {
          reverse(data, rows, cols);
          visit.choices(of, rows, cols, data);
        };
        return inner().run(ids, from, lane, turned);
      }
    };
    Reversed b(source(reversed, "B"));
    const auto found = align(*source(graph, "A"), b, {ids}, {}).value();
    EXPECT_EQ(born(found), Names{});
    for (const AlignedRouter& each : found.routers) EXPECT_EQ(each.flipped + each.own, 0) << each.name;
    EXPECT_FALSE(found.routers.empty());
  }
}

}  // namespace
}  // namespace knapsack::testing
