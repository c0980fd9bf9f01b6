// Which processors this process runs on: lists as "0-3,6", and the classes of big.LITTLE machines.
// Not for how many of them a container grants: limits.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace knapsack {

constexpr int most_cpus = 1023;  // as a number; what a cpu_set_t holds

// Numbers and ranges ("0-3,6"), as a person or sysfs writes them: ascending, each once. Absent: it is no such list, or
// one of them is above `most`.
std::optional<std::vector<int>> number_list(std::string_view text, int most = most_cpus);

// The affinity mask of the calling thread, ascending.
std::vector<int> allowed_cpus();

// text: a list of numbers, or "big" or "little": those of `allowed` that are nearly as fast as the fastest,
// and the others. A usage error for anything else, for a processor that is not allowed, and for "little" where all are
// alike. root: where /sys lies, for tests.
Result<std::vector<int>> choose_cpus(std::string_view text, std::span<const int> allowed, const std::string& root = "");

// The calling thread, and the threads it then starts, run on these only.
Result<void> run_on(std::span<const int> cpus);

}  // namespace knapsack
