#include "device/host.h"

#include <gtest/gtest.h>

namespace knapsack {
namespace {

TEST(Host, IsThisMachine) {
  const Host host = read_host();
  EXPECT_FALSE(host.cpu.empty());
  EXPECT_FALSE(host.architecture.empty());
  EXPECT_GE(host.cores, 1);
  EXPECT_GE(host.usable_cores, 1);
  EXPECT_GT(host.memory_bytes, std::int64_t{64} << 20);
  EXPECT_GT(host.memory_limit_bytes, 0);
  EXPECT_LE(host.memory_limit_bytes, host.memory_bytes);
  for (const Cache& cache : host.caches) {
    EXPECT_GE(cache.level, 1);
    EXPECT_GT(cache.bytes, 0);
    EXPECT_GE(cache.shared_by, 1);
  }
}

TEST(Host, LinesOfCpuinfo) {
  const std::string text =
      "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz: best\n\nflags\t\t: fpu avx2 fma\nprocessor\t: 1\n";
  EXPECT_EQ(cpuinfo_value(text, "model name"), "Some CPU @ 2.0GHz: best");
  EXPECT_EQ(cpuinfo_value(text, "flags"), "fpu avx2 fma");
  EXPECT_EQ(cpuinfo_value(text, "processor"), "0");
  EXPECT_EQ(cpuinfo_value(text, "model"), "");
  EXPECT_EQ(cpuinfo_value("", "flags"), "");
}

TEST(Host, ArmNamesItsCoresByNumber) {
  const auto core = [](const std::string& implementer, const std::string& part) {
    return "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU implementer\t: " + implementer +
           "\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: " + part + "\nCPU revision\t: 0\n\n";
  };
  const std::string a55 = core("0x41", "0xd05");
  const std::string x1 = core("0x41", "0xd44");
  EXPECT_EQ(arm_processors(a55 + a55 + core("0x41", "0xd41") + x1 + "Hardware\t: Some SoC\n"),
            "2 x Cortex-A55, 1 x Cortex-A78, 1 x Cortex-X1");
  EXPECT_EQ(arm_processors(core("0x99", "0xd05")), "1 x 0x99-0xd05");
  EXPECT_EQ(arm_processors("processor\t: 0\nmodel name\t: Some CPU\n"), "");
}

TEST(Host, Sizes) {
  EXPECT_EQ(size_of("512K"), 512 << 10);
  EXPECT_EQ(size_of("32M"), 32 << 20);
  EXPECT_EQ(size_of("7"), 7);
  EXPECT_EQ(size_of(""), 0);
  EXPECT_EQ(size_of("x"), 0);
  EXPECT_EQ(size_of("-3K"), 0);
  EXPECT_EQ(size_of("3G"), 0);
}

TEST(Host, ProcessorLists) {
  EXPECT_EQ(processors_in("0"), 1);
  EXPECT_EQ(processors_in("0-3"), 4);
  EXPECT_EQ(processors_in("0-3,8,10-11"), 7);
  EXPECT_EQ(processors_in(""), 0);
}

}  // namespace
}  // namespace knapsack
