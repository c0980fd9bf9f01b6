#include "base/peak_memory.h"

#include <sys/resource.h>

#include <fstream>

namespace knapsack {

double peak_memory_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  constexpr double units_a_mib = 1 << 20;
#else
  constexpr double units_a_mib = 1 << 10;
#endif
  return static_cast<double>(usage.ru_maxrss) / units_a_mib;
}

void forget_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM to what is resident now
}

}  // namespace knapsack
