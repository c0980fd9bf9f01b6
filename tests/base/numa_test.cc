#include "base/numa.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/huge_memory.h"
#include "support/support.h"

namespace knapsack {
namespace {

using Nodes = std::vector<int>;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  testing::write_file(path, text);
}

TEST(Numa, NodesAreThoseWithMemoryAndOneOfTheProcessors) {
  const testing::TempDir folder;
  const std::string root = folder.path().string();
  EXPECT_EQ(memory_nodes(Nodes{0, 1}, root), Nodes{});  // nothing is known
  const std::string at = root + "/sys/devices/system/node/";
  write(at + "has_memory", "0-1,3-4\n");
  write(at + "node0/cpulist", "0-3,8-11\n");
  write(at + "node1/cpulist", "4-7,12-15\n");
  write(at + "node2/cpulist", "16\n");  // no memory
  write(at + "node3/cpulist", "\n");    // memory only
  EXPECT_EQ(memory_nodes(Nodes{0, 1, 4, 16}, root), (Nodes{0, 1}));
  EXPECT_EQ(memory_nodes(Nodes{8, 9}, root), Nodes{0});
  EXPECT_EQ(memory_nodes(Nodes{15}, root), Nodes{1});
  EXPECT_EQ(memory_nodes(Nodes{16}, root), Nodes{});
}

int policy_of(const std::byte* at) {
  int policy = -1;
  if (::syscall(SYS_get_mempolicy, &policy, nullptr, 0, at, MPOL_F_ADDR) != 0) return -1;
  return policy;
}

TEST(Numa, TwoNodesTakeTurns) {
  const std::size_t bytes = std::size_t{5} << 20;
  const auto memory = huge_memory(bytes);
  if (policy_of(memory.get()) != MPOL_DEFAULT) GTEST_SKIP() << "memory policies are unknown here, or one is chosen";
  interleave({memory.get(), bytes}, Nodes{0});
  EXPECT_EQ(policy_of(memory.get()), MPOL_DEFAULT);
  // The second need not exist: the kernel takes those of the list that do.
  interleave({memory.get(), bytes}, Nodes{0, 1});
  EXPECT_EQ(policy_of(memory.get()), MPOL_INTERLEAVE);
  EXPECT_EQ(policy_of(memory.get() + bytes - 1), MPOL_INTERLEAVE);
  std::fill_n(memory.get(), bytes, std::byte{1});
}

}  // namespace
}  // namespace knapsack
