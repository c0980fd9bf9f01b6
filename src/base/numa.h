// Machines whose memory lies in parts (nodes), each near some of the processors.
// Not for which processors there are: cpus.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace knapsack {

// The nodes that have memory and one of these processors, ascending; empty where the system does not say. root: where
// /sys lies, for tests.
std::vector<int> memory_nodes(std::span<const int> cpus, const std::string& root = "");

// Asks that the pages of `memory`, which is aligned to one and not yet touched, come from these nodes in turn, so that
// threads on all of them read it with the bandwidth of all together. Threads are tied to no node, share out jobs that
// are run together otherwise than those that are run alone, and take from each other (threads.h): no node is the right
// one. Nothing changes where there are not two nodes, nor where a policy was chosen for this process (numactl). A wish:
// what the system refuses stays on the node of who writes first.
void interleave(std::span<std::byte> memory, std::span<const int> nodes);

}  // namespace knapsack
