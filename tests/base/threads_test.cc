#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>
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

// Memory of a shared mapping, of which the system can say whether anyone has looked at it.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    file_ = memfd_create("pages", 0);
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    at_ = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
  }
  ~Pages() {
    munmap(at_, bytes_);
    close(file_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const { return {at_, bytes_}; }
  [[nodiscard]] bool all_read() const {
    std::vector<unsigned char> there(bytes_ / 4096);
    EXPECT_EQ(mincore(at_, bytes_, there.data()), 0);
    return std::all_of(there.begin(), there.end(), [](unsigned char page) { return (page & 1) != 0; });
  }
  void forbid() const { ASSERT_EQ(mprotect(at_, bytes_, PROT_NONE), 0); }

 private:
  std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
  int file_ = -1;
};

TEST(ThreadPool, WaitingWorkersReadAhead) {
  ThreadPool pool(3);
  const Pages second(16 * 4096);
  const Pages third(16 * 4096);
  const ReadAhead ahead{.shares = {{}, second.bytes(), third.bytes()}};
  EXPECT_FALSE(second.all_read());
  pool.read_ahead(&ahead);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!(second.all_read() && third.all_read()) && std::chrono::steady_clock::now() < end)
    pool.parallel_for(6, 1, [](std::int64_t, std::int64_t, int) {});  // keeps them awake
  EXPECT_TRUE(second.all_read());
  EXPECT_TRUE(third.all_read());
  pool.read_ahead(nullptr);
}

// What was read ahead may go away once it is taken back: reading it now would be the end.
TEST(ThreadPool, NobodyReadsWhatWasTakenBack) {
  ThreadPool pool(4);
  for (int round = 0; round < 300; ++round) {
    const Pages pages(64 * 4096);
    const ReadAhead ahead{.shares = {{}, pages.bytes(), pages.bytes(), pages.bytes()}, .small = {pages.bytes()}};
    const ReadAhead none{};
    pool.read_ahead(&ahead);
    for (int i = 0; i < round % 7; ++i) pool.parallel_for(8, 1, [](std::int64_t, std::int64_t, int) {});
    pool.read_ahead(&none);  // has no shares
    pool.read_ahead(&ahead);
    pool.read_ahead(nullptr);
    pages.forbid();
    pool.parallel_for(8, 1, [](std::int64_t, std::int64_t, int) {});
  }
}

}  // namespace
}  // namespace knapsack
