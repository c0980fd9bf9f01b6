#include "base/cpus.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/limits.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::TempDir;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  testing::write_file(path, text);
}

using Cpus = std::vector<int>;

TEST(Cpus, ListsAreRead) {
  const Cpus allowed{0, 1, 2, 3, 6};
  EXPECT_EQ(*choose_cpus("0", allowed), Cpus{0});
  EXPECT_EQ(*choose_cpus("0-2,6", allowed), (Cpus{0, 1, 2, 6}));
  EXPECT_EQ(*choose_cpus("6,1,1-2", allowed), (Cpus{1, 2, 6}));
  for (const char* text : {"", ",", "0,", "a", "-1", "3-1", "0-", "1-2-3", "4", "0-6", "99999", "0 1", "+1"}) {
    const auto refused = choose_cpus(text, allowed);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::usage) << text;
  }
}

TEST(Cpus, ClassesAreThoseOfSysfs) {
  const TempDir capacities;
  const std::string root = capacities.path().string();
  const Cpus allowed{0, 1, 2, 3, 4};
  const std::vector<int> capacity{280, 280, 810, 810, 1024};
  for (std::size_t i = 0; i < capacity.size(); ++i)
    write(root + "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpu_capacity",
          std::to_string(capacity[i]) + "\n");
  EXPECT_EQ(*choose_cpus("big", allowed, root), (Cpus{2, 3, 4}));
  EXPECT_EQ(*choose_cpus("little", allowed, root), (Cpus{0, 1}));
  // Only little ones are allowed: they are the fastest there are.
  EXPECT_EQ(*choose_cpus("big", Cpus{0, 1}, root), (Cpus{0, 1}));
  EXPECT_FALSE(choose_cpus("little", Cpus{0, 1}, root));
  // Clocks, where there are no capacities.
  const TempDir clock_folder;
  const std::string clocks = clock_folder.path().string();
  for (int i = 0; i < 3; ++i)
    write(clocks + "/sys/devices/system/cpu/cpu" + std::to_string(i) + "/cpufreq/cpuinfo_max_freq",
          i == 0 ? "900000" : "2400000");
  EXPECT_EQ(*choose_cpus("big", Cpus{0, 1, 2}, clocks), (Cpus{1, 2}));
  const TempDir empty;
  const std::string nothing = empty.path().string();
  EXPECT_EQ(*choose_cpus("big", allowed, nothing), allowed);
  EXPECT_FALSE(choose_cpus("little", allowed, nothing));
}

TEST(Cpus, AThreadAndThoseItStartsRunThereOnly) {
  const auto allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  std::thread([&] {
    const Cpus last{allowed.back()};
    ASSERT_TRUE(run_on(last));
    EXPECT_EQ(allowed_cpus(), last);
    EXPECT_EQ(available_cores(), 1);
    std::thread([&] { EXPECT_EQ(allowed_cpus(), last); }).join();
  }).join();
  EXPECT_EQ(allowed_cpus(), allowed);
}

TEST(Limits, TheLeastOfTheGroupsOnTheWayUp) {
  // v2: the process's own group, one above it, and the root of what is mounted.
  const TempDir second;
  std::string root = second.path().string();
  write(root + "/proc/self/cgroup", "0::/a/b\n");
  EXPECT_FALSE(cpu_quota(root));
  write(root + "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_FALSE(cpu_quota(root));
  write(root + "/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpu_quota(root), 1.5);
  write(root + "/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(root), 1.5);
  write(root + "/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(root), 0.5);
  write(root + "/sys/fs/cgroup/a/memory.max", "1048576\n");
  EXPECT_EQ(memory_limit(root), 1048576U);
  // A path that is not visible from here: what is mounted counts.
  write(root + "/proc/self/cgroup", "0::/../elsewhere\n");
  EXPECT_EQ(cpu_quota(root), 4.0);

  // v1: a hierarchy for each controller.
  const TempDir first;
  root = first.path().string();
  write(root + "/proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/c\n2:cpuset:/\n0::/\n");
  write(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cpu_quota(root));
  write(root + "/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "250000\n");
  write(root + "/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root), 2.5);
  write(root + "/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "2097152\n");
  write(root + "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root), 2097152U);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which takes far more than this limit
  // The process's own limit. In a child, which it ends with.
  write(root + "/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
  const std::size_t before = memory_limit(root);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit own{before - 4096, RLIM_INFINITY};
    _exit(setrlimit(RLIMIT_DATA, &own) == 0 && memory_limit(root) == before - 4096 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
#endif
  // Nothing to be read at all.
  const TempDir none;
  EXPECT_FALSE(cpu_quota(none.path().string()));
  EXPECT_GT(memory_limit(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace knapsack
