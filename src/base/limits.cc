#include "base/limits.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

namespace knapsack {
namespace {

// The folders of this process's group and of those it lies in, where `controller` may have its files.
std::vector<std::string> groups(const std::string& root, std::string_view controller) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::vector<std::string> folders;
  const auto add = [&](const std::string& base, std::string path) {
    if (path.find("..") != std::string::npos) path.clear();  // outside of what is mounted here
    while (!path.empty() && path != "/") {
      folders.push_back(base + path);
      path.erase(path.rfind('/'));
    }
    folders.push_back(base);
  };
  // A line a hierarchy: "ID:CONTROLLERS:PATH"; v2's has no controllers.
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    const std::string path = line.substr(second + 1);
    if (names == ",,") add(mounts, path);
    if (names.find(fmt::format(",{},", controller)) != std::string::npos)
      add(fmt::format("{}/{}", mounts, controller), path);
  }
  // Containers may hide the list, or show another path than what they mount.
  folders.push_back(mounts);
  folders.push_back(fmt::format("{}/{}", mounts, controller));
  return folders;
}

}  // namespace

std::size_t memory_limit(const std::string& root) {
  std::size_t limit =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const auto& folder : groups(root, "memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      std::ifstream file(folder + name);
      std::size_t bytes = 0;
      if (file >> bytes) limit = std::min(limit, bytes);  // "max" does not read as a number
    }
  }
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit own{};
    if (::getrlimit(resource, &own) == 0 && own.rlim_cur != RLIM_INFINITY)
      limit = std::min(limit, static_cast<std::size_t>(own.rlim_cur));
  }
  return limit;
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const auto& folder : groups(root, "cpu")) {
    double quota = 0;
    double period = 0;
    // v2: "QUOTA PERIOD" in microseconds, or "max PERIOD", which does not read as a number. v1: a file each, -1.
    if (std::ifstream file(folder + "/cpu.max"); !(file >> quota >> period)) {
      std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
      std::ifstream period_file(folder + "/cpu.cfs_period_us");
      if (!(quota_file >> quota) || !(period_file >> period)) continue;
    }
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  }
  return least;
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
