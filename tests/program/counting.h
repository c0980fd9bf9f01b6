// Counts what the whole test program takes from the heap.
#pragma once

#include <cstddef>

namespace knapsack::testing {

// Calls of malloc, calloc, realloc and the aligned ones since the program began, by any thread; operator new among
// them. Under a sanitizer, which has an allocator of its own, only operator new.
std::size_t allocations();

}  // namespace knapsack::testing
