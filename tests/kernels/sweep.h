// How finely tests step through numbers of rows and threads.
#pragma once

#include <cstdlib>
#include <vector>

namespace knapsack::testing {

// Said by tools/arm64.sh: an emulator takes fifty times as long, so sweeps take larger steps.
inline bool emulated() { return std::getenv("KNAPSACK_TESTS_EMULATED") != nullptr; }
inline std::vector<int> thread_counts() { return emulated() ? std::vector<int>{1, 3} : std::vector<int>{1, 2, 3, 8}; }

}  // namespace knapsack::testing
