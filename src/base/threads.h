// A persistent pool for data-parallel kernels. Workers spin briefly, then park. One caller at a time.
// Not for background tasks (loading a tokenizer, say): use std::async or std::jthread for those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/limits.h"  // available_cores

namespace knapsack {

// A borrowed callable `void(int64_t begin, int64_t end, int thread)`; never outlives the call it is passed to.
class RangeTask {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, RangeTask>) RangeTask(F& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, std::int64_t b, std::int64_t e, int t) { (*static_cast<F*>(object))(b, e, t); }) {}
  void operator()(std::int64_t begin, std::int64_t end, int thread) const { call_(object_, begin, end, thread); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t, int);
};

// What threads read while they wait for others: the memory that they need next, which is slow where it must be fetched
// from beyond the caches, and has nothing to do meanwhile.
struct ReadAhead {
  std::vector<std::span<const std::byte>> shares{};  // by thread (but the caller's, who is busy): what it begins with
  std::vector<std::span<const std::byte>> small{};   // what the caller looks at before
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // including the caller; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const { return threads_; }
  // Runs task over [0, count) in pieces of at most `grain`; returns when all are done. Each
  // thread begins with a share of its own, and then takes from the others what they have not begun.
  // `thread` is in [0, size()). Allocates nothing.
  void run(std::int64_t count, std::int64_t grain, RangeTask task);
  template <class F>
  void parallel_for(std::int64_t count, std::int64_t grain, F&& f) {
    run(count, grain, RangeTask(f));
  }
  // From now on threads that wait read this, once; null: nothing, and nobody is reading any more when it returns.
  // Borrowed, with all that it names, until then. `next` may come again after another one.
  void read_ahead(const ReadAhead* next);

 private:
  struct Shared;
  void worker(int thread);
  int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace knapsack
