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

}  // namespace
}  // namespace knapsack
