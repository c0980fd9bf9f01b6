#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace knapsack {
namespace {

// About 20 us of polling: longer than the gap between two kernels of a decode step, shorter than a scheduler tick.
constexpr int spin_rounds = 2000;
constexpr std::size_t line = 64;  // bytes that caches hold together

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// A call opens the gate for a new generation, works on its own pieces, and closes the gate; it waits only for workers
// that came in meanwhile. So a worker that the system does not run just now (the machine is busy with other things)
// costs its help but holds nobody up.
struct ThreadPool::Shared {
  static constexpr std::uint64_t inside = 0x7fffffff;  // how many workers are in
  static constexpr std::uint64_t open = std::uint64_t{1} << 31;
  static constexpr std::uint64_t generation = std::uint64_t{1} << 32;

  // A thread's share of the pieces, [next, end). Neighbours in memory stay with one thread, which reads them straight
  // on; who has done its own takes from the others.
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  // How far a worker has read ahead.
  struct alignas(64) Reader {
    std::atomic<bool> reading{false};  // what `ahead` was must stay
    const ReadAhead* of = nullptr;
    std::size_t done = 0;
  };

  alignas(64) std::atomic<std::uint64_t> gate{0};  // generation, open, inside
  std::atomic<bool> stop{false};
  // Written while the gate is closed and nobody is inside.
  std::vector<Share> shares;
  std::atomic<const ReadAhead*> ahead{nullptr};
  std::vector<Reader> readers;
  std::int64_t grain = 1;
  const RangeTask* task = nullptr;
  std::mutex mutex;
  std::condition_variable wake;
  int sleeping = 0;
  std::vector<std::thread> workers;

  void share_out(std::int64_t count) {
    const auto threads = static_cast<std::int64_t>(shares.size());
    const std::int64_t pieces = (count + grain - 1) / grain;
    for (std::int64_t i = 0; i < threads; ++i) {
      Share& share = shares[static_cast<std::size_t>(i)];
      share.next.store(pieces * i / threads * grain, std::memory_order_relaxed);
      share.end = std::min(pieces * (i + 1) / threads * grain, count);
    }
  }
  void drain(int thread) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(static_cast<std::size_t>(thread) + i) % shares.size()];
      while (true) {
        const std::int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= share.end) break;
        (*task)(begin, std::min(begin + grain, share.end), thread);
      }
    }
  }
  // False once the gate is closed for the generation of `seen`; `seen` becomes the newest one.
  bool enter(std::uint64_t& seen) {
    std::uint64_t state = gate.load(std::memory_order_acquire);
    while ((state & open) != 0) {
      if (gate.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) break;
    }
    seen = state / generation;
    return (state & open) != 0;
  }

  // Reads a little more of what comes next; false: nothing is left.
  bool read_some(int thread) {
    constexpr std::size_t piece = 512;  // within which nobody asks whether there is work
    Reader& reader = readers[static_cast<std::size_t>(thread)];
    const ReadAhead* next = ahead.load(std::memory_order_acquire);
    if (next == nullptr) return false;
    if (next != reader.of) {
      reader.of = next;
      reader.done = 0;
    }
    reader.reading.store(true);
    bool more = false;
    if (ahead.load() == next && std::ssize(next->shares) > thread) {
      const std::span<const std::byte> share = next->shares[static_cast<std::size_t>(thread)];
      const std::size_t end = std::min(share.size(), reader.done + piece);
      more = reader.done < end;
      // Loads: a prefetch may be dropped.
      for (; reader.done < end; reader.done += line) {
        const auto byte = *static_cast<const volatile std::byte*>(share.data() + reader.done);
        static_cast<void>(byte);
      }
    }
    reader.reading.store(false, std::memory_order_release);
    return more;
  }
  void prefetch_small() const {
    const ReadAhead* next = ahead.load(std::memory_order_relaxed);
    if (next == nullptr) return;
    for (const std::span<const std::byte> range : next->small)
      for (std::size_t at = 0; at < range.size(); at += line) __builtin_prefetch(range.data() + at);
  }

  void end() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
      gate.fetch_add(generation);
    }
    wake.notify_all();
    for (auto& thread : workers) thread.join();
  }
};

ThreadPool::ThreadPool(int threads) : threads_(std::max(1, threads)), shared_(std::make_unique<Shared>()) {
  shared_->shares = std::vector<Shared::Share>(static_cast<std::size_t>(threads_));
  shared_->readers = std::vector<Shared::Reader>(static_cast<std::size_t>(threads_));
  shared_->workers.reserve(static_cast<std::size_t>(threads_ - 1));
  try {
    for (int i = 1; i < threads_; ++i) shared_->workers.emplace_back([this, i] { worker(i); });
  } catch (const std::system_error&) {  // as many as there can be are running, and wait for work
    shared_->end();
    throw;
  }
}

ThreadPool::~ThreadPool() { shared_->end(); }

void ThreadPool::worker(int thread) {
  Shared& s = *shared_;
  std::uint64_t seen = 0;
  // The end is asked for apart: a worker that looked at `stop` just before it was set, and at the gate just after, has
  // seen the last generation and would wait for ever.
  const auto nothing_new = [&] {
    return s.gate.load(std::memory_order_acquire) / Shared::generation == seen &&
           !s.stop.load(std::memory_order_acquire);
  };
  while (true) {
    for (int spins = 0; spins < spin_rounds && nothing_new(); ++spins)
      if (!s.read_some(thread)) pause();
    if (nothing_new()) {
      std::unique_lock lock(s.mutex);
      ++s.sleeping;
      s.wake.wait(lock, [&] { return !nothing_new(); });
      --s.sleeping;
    }
    if (s.stop.load(std::memory_order_acquire)) return;
    if (!s.enter(seen)) continue;
    s.drain(thread);
    s.gate.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, RangeTask task) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(1, grain);
  if (threads_ == 1 || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) task(begin, std::min(begin + grain, count), 0);
    if (count > grain) shared_->prefetch_small();
    return;
  }
  Shared& s = *shared_;
  s.grain = grain;
  s.task = &task;
  s.share_out(count);
  bool notify = false;
  {
    const std::lock_guard lock(s.mutex);
    s.gate.fetch_add(Shared::generation + Shared::open, std::memory_order_release);
    notify = s.sleeping > 0;
  }
  if (notify) s.wake.notify_all();
  s.drain(0);
  s.gate.fetch_and(~Shared::open, std::memory_order_acq_rel);
  s.prefetch_small();
  int spins = 0;
  while ((s.gate.load(std::memory_order_acquire) & Shared::inside) != 0) {
    if (++spins < spin_rounds) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::read_ahead(const ReadAhead* next) {
  Shared& s = *shared_;
  s.ahead.store(next);
  if (next != nullptr) return;
  for (const Shared::Reader& reader : s.readers)
    while (reader.reading.load()) pause();
}

}  // namespace knapsack
