#include "base/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <optional>

#include "base/cpus.h"

namespace knapsack {
namespace {

std::optional<std::vector<int>> list_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return number_list(line);
}

}  // namespace

std::vector<int> memory_nodes(std::span<const int> cpus, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node/";
  std::vector<int> nodes;
  for (const int node : list_in(folder + "has_memory").value_or(std::vector<int>{})) {
    const auto near = list_in(folder + "node" + std::to_string(node) + "/cpulist");  // an empty line: none
    if (near && std::find_first_of(near->begin(), near->end(), cpus.begin(), cpus.end()) != near->end())
      nodes.push_back(node);
  }
  return nodes;
}

void interleave(std::span<std::byte> memory, std::span<const int> nodes) {
  if (nodes.size() < 2) return;
  int policy = MPOL_DEFAULT;
  if (::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != MPOL_DEFAULT) return;
  constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;  // NOLINT(google-runtime-int): the call's type
  std::array<unsigned long, 16> mask{};                           // NOLINT(google-runtime-int)
  for (const int node : nodes) {
    const auto number = static_cast<std::size_t>(node);
    if (number < bits * mask.size()) mask[number / bits] |= 1UL << number % bits;
  }
  // The kernel takes one bit less than it is told of.
  ::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_INTERLEAVE, mask.data(), bits * mask.size() + 1, 0);
}

}  // namespace knapsack
