// The arena: nothing that lives at the same time shares memory, and little is wasted.
#include "graph/arena.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "graph/every_op.h"

namespace knapsack {
namespace {

void expect_disjoint(const std::vector<Buffer>& buffers, const ArenaPlan& plan) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0U);
    EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (buffers[i].first > buffers[j].last || buffers[j].first > buffers[i].last) continue;
      EXPECT_TRUE(plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                  plan.offsets[j] + buffers[j].bytes <= plan.offsets[i])
          << i << " and " << j;
    }
  }
}

TEST(Arena, ReusesWhatIsDead) {
  const std::vector<Buffer> buffers{{64, 0, 1}, {128, 1, 2}, {64, 2, 3}, {192, 3, 4}};
  const ArenaPlan plan = plan_arena(buffers);
  expect_disjoint(buffers, plan);
  EXPECT_EQ(plan.lower_bound, 256U);
  EXPECT_EQ(plan.bytes, 256U);
}

TEST(Arena, NothingTakesNothing) {
  EXPECT_EQ(plan_arena({}).bytes, 0U);
  const std::vector<Buffer> one{{1, 0, 0}};
  EXPECT_EQ(plan_arena(one).bytes, 64U);
}

TEST(Arena, RandomLivesNeverCollide) {
  testing::Noise noise(11);
  const auto below = [&](int n) {
    return std::min(n - 1, static_cast<int>((noise.next() + 1) / 2 * static_cast<float>(n)));
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 60; ++i) {
      const int first = below(40);
      buffers.push_back({static_cast<std::size_t>(1 + below(5000)), first, first + below(10)});
    }
    const ArenaPlan plan = plan_arena(buffers);
    expect_disjoint(buffers, plan);
    EXPECT_GE(plan.bytes, plan.lower_bound);
  }
}

// The shapes of a real small model (SmolLM2-135M, its prefill chunk of 128) and of a graph with experts.
TEST(Arena, ADecoderIsWithinAFifthOfTheLowerBound) {
  const Graph llama = testing::tiny_graph(
      {.vocab = 512, .hidden = 576, .heads = 9, .kv_heads = 3, .head_dim = 64, .ffn = 1536, .layers = 8});
  const Graph other = testing::every_op_graph();
  for (const Graph* g : {&llama, &other}) {
    for (const std::int64_t tokens : {1, 128}) {
      auto program = lower(*g, {.max_tokens = tokens, .max_selected = 1});
      ASSERT_TRUE(program) << program.error().message;
      std::printf("arena of %d tokens: %zu bytes, lower bound %zu\n", static_cast<int>(tokens), (*program)->arena_bytes,
                  (*program)->arena_lower_bound);
      EXPECT_LE(static_cast<double>((*program)->arena_bytes), 1.2 * static_cast<double>((*program)->arena_lower_bound));
    }
  }
}

}  // namespace
}  // namespace knapsack
