// Large memory that is read from end to end, on huge pages where the system grants them: a sweep over a gigabyte then
// needs one translation for 2 MiB, not 512. Not for memory that stays mostly unused: the first touch of a huge page
// takes all of it.
#pragma once

#include <cstddef>
#include <memory>

namespace knapsack {

// Zeros, which take no memory until they are written; on the NUMA node of the thread that writes first. Throws
// bad_alloc.
std::shared_ptr<std::byte[]> huge_memory(std::size_t bytes);

}  // namespace knapsack
