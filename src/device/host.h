// What this machine is, as far as a program can find out: processor, cores, caches, memory, limits. Read, not measured:
// peaks.h measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace knapsack {

struct Cache {
  int level = 0;
  std::string type{};  // "data", "instruction" or "unified"
  std::int64_t bytes = 0;
  int shared_by = 1;  // logical processors
};

struct Host {
  std::string cpu{};                    // "AMD EPYC"; as the system names it, or the architecture's name
  std::string architecture{};           // "x86_64", "aarch64"
  std::vector<std::string> features{};  // of those that matter here, in the system's spelling: "avx2", "avx512_vnni"
  int cores = 1;                        // logical processors online
  int usable_cores = 1;                 // of these, what this process may use: affinity and cgroup quota
  std::optional<double> cpu_quota{};    // processors' worth of time
  std::int64_t memory_bytes = 0;
  std::int64_t memory_limit_bytes = 0;  // the cgroup's or the process's where that is lower
  std::vector<Cache> caches{};          // of the first processor, innermost first

  [[nodiscard]] bool has(std::string_view feature) const;
};

Host read_host();

// The parts of it, from text such as Linux gives: a value of /proc/cpuinfo ("model name"), what it says of ARM's cores
// ("4 x Cortex-A55, 4 x Cortex-A78"; empty elsewhere), a cache's size ("512K"), the processors in a list ("0-3,8").
std::string cpuinfo_value(std::string_view cpuinfo, std::string_view key);
std::string arm_processors(std::string_view cpuinfo);
std::int64_t size_of(std::string_view text);
int processors_in(std::string_view list);

}  // namespace knapsack
