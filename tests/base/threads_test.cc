#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace knapsack {
namespace {

TEST(ThreadPool, EveryIndexRunsOnceForAnyThreadCountAndGrain) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const std::int64_t grain : {1, 3, 1000}) {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> seen(257);
        pool.parallel_for(257, grain, [&](std::int64_t b, std::int64_t e, int t) {
          ASSERT_LT(t, threads);
          for (auto i = b; i < e; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (auto& s : seen) ASSERT_EQ(s, 1);
      }
    }
  }
}

// Calls one after the other, of different sizes, so that a worker that comes late to one meets the next.
// The end comes while workers are anywhere between two looks at the gate.
TEST(ThreadPool, ManyShortLivesEnd) {
  for (int life = 0; life < 1000; ++life) {
    ThreadPool pool(4);
    std::atomic<int> done{0};
    for (int call = 0; call < life % 3; ++call)
      pool.parallel_for(8, 1, [&](std::int64_t, std::int64_t, int) { done.fetch_add(1); });
    ASSERT_EQ(done.load(), life % 3 * 8);
  }
}

TEST(ThreadPool, LateWorkersNeitherMissNorRepeatWork) {
  ThreadPool pool(4);
  std::vector<std::int64_t> done(64);
  for (std::int64_t round = 0; round < 20000; ++round) {
    const std::int64_t count = 2 + round % 63;
    pool.parallel_for(count, 1, [&](std::int64_t b, std::int64_t e, int) {
      for (auto i = b; i < e; ++i) done[static_cast<std::size_t>(i)] += round;
    });
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(done[static_cast<std::size_t>(i)], round);
      done[static_cast<std::size_t>(i)] = 0;
    }
  }
}

}  // namespace
}  // namespace knapsack
