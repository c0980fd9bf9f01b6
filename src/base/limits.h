// What the system lets this process use: the machine's, or the container's where that is less.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace knapsack {

// Limits are those of the process's control groups, v1 or v2, and of the groups these lie in. root: where /proc and
// /sys lie, for tests.

// Bytes of memory this process could ever use: RAM, or where that is lower the cgroup's limit or the process's own
// (ulimit -v, -d). A mapping larger than RAM or the cgroup's limit may well be granted by the kernel and then kill the
// process when it is touched.
std::size_t memory_limit(const std::string& root = "");

// Processors' worth of time that the cgroup grants (1.5 is one and a half); absent: no quota.
std::optional<double> cpu_quota(const std::string& root = "");

// Cores this process may really use: the affinity mask, bounded by the quota.
int available_cores();

}  // namespace knapsack
