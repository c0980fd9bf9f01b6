#include "base/limits.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace knapsack {

std::size_t memory_limit() {
  std::size_t limit =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::size_t bytes = 0;
    if (file >> bytes) limit = std::min(limit, bytes);  // "max" does not read as a number
  }
  return limit;
}

std::optional<double> cpu_quota() {
  double quota = 0;
  double period = 0;
  // cgroup v2: "QUOTA PERIOD" in microseconds, or "max PERIOD", which does not read as a number. v1: a file each, -1.
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); !(file >> quota >> period)) {
    std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

int available_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  if (const auto quota = cpu_quota())
    cores = static_cast<int>(std::min(std::ceil(*quota), static_cast<double>(std::max(1, cores))));
  return std::max(1, cores);
}

}  // namespace knapsack
