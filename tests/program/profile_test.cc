// What a profile counts: calls, the bytes and operations that a step needs, and nothing once it is taken away.
#include "program/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/every_op.h"
#include "program/executor.h"

namespace knapsack {
namespace {

struct Model {
  std::shared_ptr<const Program> program;
  KvCache kv;
  ThreadPool pool{1};
  std::unique_ptr<Executor> executor;
  Profile profile;

  explicit Model(const Graph& g)
      : program(*lower(g, {.max_tokens = 8, .max_selected = 8})),
        kv(*KvCache::create(program->states, 2, 100, DType::F16)),
        executor(*Executor::create(program, kv, pool, Isa::scalar)) {
    executor->set_profile(&profile);
  }
  // Tokens from `from` in slot 0, the logits of the last wanted.
  void step(std::int32_t from, std::int32_t count) {
    std::vector<std::int32_t> ids, positions, selected{count - 1};
    for (std::int32_t i = 0; i < count; ++i) {
      ids.push_back(i + 1);
      positions.push_back(from + i);
    }
    const std::vector<std::int32_t> slots(ids.size());
    executor->run({.ids = ids, .positions = positions, .slots = slots, .selected = selected});
  }
  [[nodiscard]] const Profile::Entry& of(const std::string& name) const {
    const auto at =
        std::find_if(program->ops.begin(), program->ops.end(), [&](const ProgramOp& op) { return op.name == name; });
    EXPECT_NE(at, program->ops.end()) << name;
    return profile.ops[static_cast<std::size_t>(at - program->ops.begin())];
  }
};

TEST(Profile, WhatATinyDecoderNeeds) {
  Model run(testing::tiny_graph({}));
  run.step(0, 5);
  run.step(5, 3);
  const auto& q = run.of("layers.0.attn.q");  // 24 -> 24
  EXPECT_EQ(q.calls, 2);
  EXPECT_EQ(q.work.operations, 2 * 24 * 24 * 8);
  EXPECT_EQ(q.work.bytes, 2 * (24 * 24 * 4) + 8 * (24 + 24) * 4);
  EXPECT_FALSE(q.packed);
  const auto& head = run.of("logits");  // one row a step
  EXPECT_EQ(head.work.operations, 2 * 24 * 37 * 2);
  const auto& mix = run.of("layers.1.attn.mix");  // four heads of six; positions 0..4 see 15 rows, 5..7 see 21
  EXPECT_EQ(mix.work.operations, 2 * 4 * (6 + 6) * (15 + 21));
  EXPECT_EQ(mix.work.bytes, (5 + 8) * 2 * (2 * 6) * 2 + 8 * 2 * (4 * 6) * 4);
  const auto& embed = run.of("embed");
  EXPECT_EQ(embed.work.operations, 0);
  EXPECT_EQ(embed.work.bytes, 8 * (4 + 24 * 4 + 24 * 4));
}

TEST(Profile, EveryOpIsCounted) {
  Model run(testing::every_op_graph());
  run.step(0, 4);
  ASSERT_EQ(run.profile.ops.size(), run.program->ops.size());
  for (std::size_t i = 0; i < run.profile.ops.size(); ++i) {
    const auto& entry = run.profile.ops[i];
    const ProgramOp& op = run.program->ops[i];
    EXPECT_EQ(entry.calls, 1) << op.name;
    EXPECT_GE(entry.ms, 0) << op.name;
    EXPECT_GT(entry.work.bytes, 0) << op.name;
    const bool products = op_info(op.op).cls == OpClass::matrix || op.op == Op::attention;
    EXPECT_EQ(entry.work.operations > 0, products) << op.name;
  }
}

TEST(Profile, NothingIsAddedOnceItIsTakenAway) {
  Model run(testing::tiny_graph({}));
  run.step(0, 2);
  run.executor->set_profile(nullptr);
  run.step(2, 2);
  EXPECT_EQ(run.of("embed").calls, 1);
}

}  // namespace
}  // namespace knapsack
