#include "machine.h"

#include <cstdlib>

namespace knapsack::bench {

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

const Peaks& peaks() {
  static const Peaks measured = measure_peaks(read_host(), {.threads = {pool().size()}, .caches = false}).value();
  return measured;
}

double peak_gflops() { return peaks().fp32(pool().size()); }

double peak_gops(int bits) {
  const double integers = peaks().int8(pool().size(), bits);
  return integers > 0 ? integers : peak_gflops();
}

double peak_read_gbps() { return peaks().read(pool().size()); }

}  // namespace knapsack::bench
