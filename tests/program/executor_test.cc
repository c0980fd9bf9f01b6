// The executor's contract: no allocation in a step, rows skipped when nothing is selected, taps, shared KV cache,
// slots that do not see each other.
#include "program/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "graph/every_op.h"
#include "program/counting.h"

namespace knapsack {
namespace {

struct Model {
  std::shared_ptr<const Program> prefill, decode;
  KvCache kv;
  ThreadPool pool;
  std::unique_ptr<Executor> prefill_run, decode_run;

  Model(const Graph& g, std::int64_t chunk, std::int64_t selected, int threads, Isa isa = Isa::scalar,
        bool keep_values = false, DType dtype = DType::F32)
      : prefill(*lower(g, {.max_tokens = chunk, .max_selected = selected, .keep_values = keep_values})),
        decode(*lower(g, {.max_tokens = 1, .max_selected = 1, .keep_values = keep_values})),
        kv(*KvCache::create(prefill->states, 2, 100, dtype)),
        pool(threads),
        prefill_run(*Executor::create(prefill, kv, pool, isa)),
        decode_run(*Executor::create(decode, kv, pool, isa)) {}
};

// Tokens `from`.. of a fixed sequence in one slot.
struct Tokens {
  std::vector<std::int32_t> ids, positions, slots, selected;
  Tokens(std::int32_t from, std::int32_t count, std::int32_t slot, std::vector<std::int32_t> rows)
      : selected(std::move(rows)) {
    for (std::int32_t i = from; i < from + count; ++i) {
      ids.push_back((i * 11 + slot * 3 + 5) % 29);
      positions.push_back(i);
      slots.push_back(slot);
    }
  }
  [[nodiscard]] Step step() const { return {ids, positions, slots, selected}; }
};

std::vector<float> run(Executor& e, const Tokens& t) {
  const auto logits = e.run(t.step());
  return {logits.begin(), logits.end()};
}

std::vector<Graph> graphs() {
  std::vector<Graph> all;
  all.push_back(testing::every_op_graph());
  all.push_back(testing::tiny_graph({}));
  return all;
}

TEST(Executor, PrefillAndDecodeShareOneCache) {
  for (const Graph& g : graphs())
    for (const Isa isa : supported_isas()) {
      Model m(g, 8, 8, 2, isa);
      const auto vocab = static_cast<std::size_t>(m.prefill->slots[static_cast<std::size_t>(m.prefill->logits)].cols);
      std::vector<float> by_one;
      for (std::int32_t p = 0; p < 20; ++p) {
        const auto logits = run(*m.decode_run, Tokens(p, 1, 0, {0}));
        by_one.insert(by_one.end(), logits.begin(), logits.end());
      }
      // The same again over the same cache: eight, then one, then five, then six.
      std::vector<float> mixed = run(*m.prefill_run, Tokens(0, 8, 0, {0, 1, 2, 3, 4, 5, 6, 7}));
      for (const auto& part :
           {run(*m.decode_run, Tokens(8, 1, 0, {0})), run(*m.prefill_run, Tokens(9, 5, 0, {0, 1, 2, 3, 4})),
            run(*m.prefill_run, Tokens(14, 6, 0, {0, 1, 2, 3, 4, 5}))})
        mixed.insert(mixed.end(), part.begin(), part.end());
      EXPECT_EQ(mixed, by_one) << isa_name(isa);
      EXPECT_EQ(by_one.size(), 20 * vocab);
    }
}

TEST(Executor, SelectedRowsInAnyOrderAndNone) {
  for (const Graph& g : graphs()) {
    Model m(g, 8, 3, 1);
    const auto last_three = run(*m.prefill_run, Tokens(0, 8, 0, {7, 0, 3}));
    const std::size_t vocab = last_three.size() / 3;
    for (const auto& [at, row] : std::map<std::size_t, std::int32_t>{{0, 7}, {1, 0}, {2, 3}}) {
      const auto one = run(*m.prefill_run, Tokens(0, 8, 0, {row}));
      EXPECT_TRUE(std::equal(one.begin(), one.end(), last_three.begin() + static_cast<std::ptrdiff_t>(at * vocab)));
    }
    std::vector<std::string> made;
    m.prefill_run->set_tap([&](std::string_view name, std::int64_t rows, std::int64_t, const float*) {
      EXPECT_EQ(rows, 8);
      made.emplace_back(name);
    });
    EXPECT_TRUE(run(*m.prefill_run, Tokens(0, 8, 0, {})).empty());
    EXPECT_NE(std::find(made.begin(), made.end(), "norm"), made.end());
    for (const char* head : {"last", "logits"})
      EXPECT_EQ(std::find(made.begin(), made.end(), head), made.end()) << head;
    EXPECT_TRUE(run(*m.prefill_run, Tokens(0, 0, 0, {})).empty());
  }
}

TEST(Executor, SlotsDoNotSeeEachOther) {
  for (const Graph& g : graphs()) {
    Model alone(g, 8, 8, 1), together(g, 8, 8, 1);
    std::vector<float> a = run(*alone.prefill_run, Tokens(0, 4, 1, {3}));
    // Both sequences in one step, rows interleaved.
    Tokens both(0, 4, 1, {});
    const Tokens other(0, 4, 0, {});
    both.ids.insert(both.ids.begin() + 1, other.ids.begin(), other.ids.end());
    both.positions.insert(both.positions.begin() + 1, other.positions.begin(), other.positions.end());
    both.slots.insert(both.slots.begin() + 1, other.slots.begin(), other.slots.end());
    both.selected = {7};
    EXPECT_EQ(run(*together.prefill_run, both), a);
  }
}

TEST(Executor, TheSameWithAndWithoutSharedMemory) {
  for (const Graph& g : graphs()) {
    Model planned(g, 8, 8, 2), apart(g, 8, 8, 2, Isa::scalar, true);
    EXPECT_LT(planned.prefill->arena_bytes, apart.prefill->arena_bytes);
    std::vector<std::vector<float>> seen[2];
    for (int i = 0; i < 2; ++i) {
      Model& m = i == 0 ? planned : apart;
      m.prefill_run->set_tap([&, i](std::string_view, std::int64_t rows, std::int64_t cols, const float* data) {
        seen[i].emplace_back(data, data + rows * cols);
      });
      for (std::int32_t p = 0; p < 24; p += 6) run(*m.prefill_run, Tokens(p, 6, 0, {0, 5}));
    }
    EXPECT_EQ(seen[0], seen[1]);
  }
}

// Fast kernels run an op with those that read it, unless a tap may write in between.
TEST(Executor, WhatATapWritesIsWhatTheNextOpReads) {
  for (const Graph& g : graphs())
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(isa_name(isa));
      Model m(g, 8, 8, 2, isa);
      const Tokens tokens(0, 7, 0, {0, 3, 6});
      const std::vector<float> logits = run(*m.prefill_run, tokens);
      for (const bool norm : {false, true}) {
        m.prefill_run->set_tap([&](std::string_view name, std::int64_t rows, std::int64_t cols, float* data) {
          if (name == (norm ? "norm" : "embed")) std::fill_n(data, rows * cols, 0.0F);
        });
        const std::vector<float> zeroed = run(*m.prefill_run, tokens);
        EXPECT_NE(zeroed, logits);
        if (norm) {
          EXPECT_EQ(zeroed, std::vector<float>(logits.size(), 0.0F));
        }
      }
      m.prefill_run->set_tap({});
      EXPECT_EQ(run(*m.prefill_run, tokens), logits);
    }
}

// Fast kernels add a residual while they make the product, unless someone looks at the product.
TEST(Executor, ASumIsMadeWithItsProductAndTapsSeeBoth) {
  for (const Graph& g : graphs())
    for (const Isa isa : supported_isas())
      for (const bool keep_values : {false, true}) {
        SCOPED_TRACE(isa_name(isa));
        Model m(g, 8, 8, 2, isa, keep_values), tapped(g, 8, 8, 2, isa, keep_values);
        Profile profile;
        m.prefill_run->set_profile(&profile);
        const Tokens tokens(0, 7, 0, {0, 3, 6});
        const std::vector<float> logits = run(*m.prefill_run, tokens);
        std::map<std::string, std::vector<float>> values;
        tapped.prefill_run->set_tap(
            [&](std::string_view name, std::int64_t rows, std::int64_t cols, const float* data) {
              values[std::string(name)] = {data, data + rows * cols};
            });
        EXPECT_EQ(run(*tapped.prefill_run, tokens), logits);
        int together = 0;
        for (std::size_t i = 1; i < m.prefill->ops.size(); ++i) {
          const ProgramOp& add = m.prefill->ops[i];
          if (add.op != Op::add) continue;
          const auto value = [&](int slot) { return values[m.prefill->slots[static_cast<std::size_t>(slot)].name]; };
          const std::vector<float> a = value(add.in[0]), b = value(add.in[1]), sum = value(add.out[0]);
          ASSERT_EQ(a.size(), sum.size());
          ASSERT_EQ(b.size(), sum.size());
          for (std::size_t j = 0; j < sum.size(); ++j) EXPECT_EQ(sum[j], a[j] + b[j]);
          if (profile.ops[i].calls > 0) continue;
          ++together;
          EXPECT_EQ(m.prefill->ops[i - 1].op, Op::linear);
        }
        // Each value in memory of its own: no sum lies where its product's input is. Two layers of two sums, or the one
        // sum of this graph that adds a product.
        const int sums = values.contains("layers.1.out") ? 4 : 1;
        EXPECT_GE(together, isa != Isa::scalar && keep_values ? sums : 0);
        EXPECT_LE(together, isa != Isa::scalar ? sums : 0);
      }
}

TEST(Executor, TapsNameTheGraphsValues) {
  Model m(testing::tiny_graph({}), 8, 8, 1);
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> shapes;
  m.prefill_run->set_tap([&](std::string_view name, std::int64_t rows, std::int64_t cols, const float*) {
    shapes[std::string(name)] = {rows, cols};
  });
  run(*m.prefill_run, Tokens(0, 5, 0, {4}));
  EXPECT_EQ(shapes["embed"], std::pair(std::int64_t{5}, std::int64_t{24}));
  EXPECT_EQ(shapes["layers.1.out"], std::pair(std::int64_t{5}, std::int64_t{24}));
  EXPECT_EQ(shapes["norm"], std::pair(std::int64_t{5}, std::int64_t{24}));
  EXPECT_EQ(shapes["logits"], std::pair(std::int64_t{1}, std::int64_t{37}));
}

TEST(Executor, AStepAllocatesNothing) {
  for (const Graph& g : graphs())
    for (const Isa isa : supported_isas())
      for (const int threads : {1, 2}) {
        Model m(g, 8, 2, threads, isa, false, DType::F16);
        m.decode_run->set_tap([](std::string_view, std::int64_t, std::int64_t, const float*) {});
        std::vector<Tokens> steps;
        for (std::int32_t p = 0; p < 70; ++p) steps.emplace_back(p, 1, 0, std::vector<std::int32_t>{0});
        const Tokens chunk(0, 8, 1, {1, 7}), rest(8, 3, 1, {});
        const std::size_t before = testing::allocations();
        m.prefill_run->run(chunk.step());
        m.prefill_run->run(rest.step());
        for (const Tokens& t : steps) m.decode_run->run(t.step());
        EXPECT_EQ(testing::allocations() - before, 0U) << isa_name(isa) << ", " << threads << " threads";
      }
}

TEST(Executor, AStepOutsideTheCacheIsAMistakeOfOurs) {
  Model m(testing::tiny_graph({}), 8, 8, 1);
  EXPECT_DEATH(run(*m.decode_run, Tokens(100, 1, 0, {0})), "position < kv_->ctx");
  EXPECT_DEATH(run(*m.decode_run, Tokens(0, 1, 2, {0})), "slot < kv_->slots");
  EXPECT_DEATH(run(*m.decode_run, Tokens(0, 2, 0, {0})), "max_tokens");
  EXPECT_DEATH(run(*m.prefill_run, Tokens(0, 2, 0, {2})), "row < tokens");
}

TEST(Executor, TheCounterCounts) {
  const std::size_t before = testing::allocations();
  const auto owned = std::make_unique<int>(3);
  EXPECT_EQ(testing::allocations() - before, 1U) << *owned;
}

}  // namespace
}  // namespace knapsack
