#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace knapsack::bench {
namespace {

double seconds(auto&& f) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

using Vector __attribute__((vector_size(32))) = float;
constexpr int chains = 10;  // independent sums: latency 4 x two a cycle, and some to spare
constexpr int steps = 4000000;

#if defined(__x86_64__)
__attribute__((target("avx2,fma"), optimize("fp-contract=fast"), noinline))
#endif
float multiply_add(float seed) {
  Vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = Vector{} + static_cast<float>(i) * seed;
  const Vector factor = Vector{} + seed;
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 10
    for (int i = 0; i < chains; ++i) sum[i] = sum[i] * factor + factor;
  }
  float total = 0;
  for (int i = 0; i < chains; ++i) total += sum[i][i % 8];
  return total;
}

#if defined(__x86_64__)
__attribute__((target("avx2"), noinline))
#endif
std::int64_t
sum_of(const std::int64_t* begin, const std::int64_t* end) {
  using Wide __attribute__((vector_size(32))) = std::int64_t;
  Wide sum[4] = {};
  for (; begin + 16 <= end; begin += 16)
    for (int i = 0; i < 4; ++i) sum[i] += *reinterpret_cast<const Wide*>(begin + 4 * i);
  return sum[0][0] + sum[1][1] + sum[2][2] + sum[3][3];
}

}  // namespace

ThreadPool& pool() {
  static ThreadPool threads([] {
    const char* wanted = std::getenv("KNAPSACK_THREADS");
    return wanted != nullptr ? std::atoi(wanted) : available_cores();
  }());
  return threads;
}

Isa isa() {
  static const Isa chosen = choose_isa().value();
  return chosen;
}

double peak_gflops() {
  static const double peak = [] {
    volatile float sink = 0;
    const double time = seconds([&] {
      pool().parallel_for(pool().size(), 1, [&](std::int64_t, std::int64_t, int) { sink = multiply_add(0.5F); });
    });
    return 2.0 * 8 * chains * steps * pool().size() / time / 1e9;
  }();
  return peak;
}

double peak_read_gbps() {
  static const double peak = [] {
    constexpr std::int64_t count = std::int64_t{256} << 17;
    std::vector<std::int64_t> memory(count + 4);
    std::iota(memory.begin(), memory.end(), 0);
    const std::int64_t* aligned = memory.data() + (32 - reinterpret_cast<std::uintptr_t>(memory.data()) % 32) % 32 / 8;
    volatile std::int64_t sink = 0;
    const double time = seconds([&] {
      pool().parallel_for(count, 1 << 17, [&](std::int64_t begin, std::int64_t end, int) {
        sink = sum_of(aligned + begin, aligned + end);
      });
    });
    return static_cast<double>(count) * 8 / time / 1e9;
  }();
  return peak;
}

}  // namespace knapsack::bench
