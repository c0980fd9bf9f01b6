#include "device/host.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "base/limits.h"

namespace knapsack {
namespace {

// What kernels here use or may use; the rest of a processor's hundred flags says nothing about a model's speed.
constexpr std::array told_features{"avx",      "avx2",     "fma",      "f16c",        "avx_vnni",    "avx512f",
                                   "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_int8",
                                   "amx_bf16", "asimd",    "asimdhp",  "asimddp",     "i8mm",        "bf16",
                                   "sve",      "sve2",     "svei8mm",  "sme"};

// "CPU implementer" and "CPU part" of ARM's /proc/cpuinfo, from the manuals of the cores (MIDR_EL1).
struct ArmCore {
  std::string_view implementer, part, name;
};
constexpr auto arm_cores = std::to_array<ArmCore>({
    {"0x41", "0xd03", "Cortex-A53"},  {"0x41", "0xd04", "Cortex-A35"},   {"0x41", "0xd05", "Cortex-A55"},
    {"0x41", "0xd07", "Cortex-A57"},  {"0x41", "0xd08", "Cortex-A72"},   {"0x41", "0xd09", "Cortex-A73"},
    {"0x41", "0xd0a", "Cortex-A75"},  {"0x41", "0xd0b", "Cortex-A76"},   {"0x41", "0xd0c", "Neoverse-N1"},
    {"0x41", "0xd0d", "Cortex-A77"},  {"0x41", "0xd0e", "Cortex-A76AE"}, {"0x41", "0xd40", "Neoverse-V1"},
    {"0x41", "0xd41", "Cortex-A78"},  {"0x41", "0xd42", "Cortex-A78AE"}, {"0x41", "0xd44", "Cortex-X1"},
    {"0x41", "0xd46", "Cortex-A510"}, {"0x41", "0xd47", "Cortex-A710"},  {"0x41", "0xd48", "Cortex-X2"},
    {"0x41", "0xd49", "Neoverse-N2"}, {"0x41", "0xd4b", "Cortex-A78C"},  {"0x41", "0xd4c", "Cortex-X1C"},
    {"0x41", "0xd4d", "Cortex-A715"}, {"0x41", "0xd4e", "Cortex-X3"},    {"0x41", "0xd4f", "Neoverse-V2"},
    {"0x41", "0xd80", "Cortex-A520"}, {"0x41", "0xd81", "Cortex-A720"},  {"0x41", "0xd82", "Cortex-X4"},
    {"0x41", "0xd84", "Neoverse-V3"}, {"0x41", "0xd85", "Cortex-X925"},  {"0x41", "0xd87", "Cortex-A725"},
    {"0x41", "0xd8e", "Neoverse-N3"}, {"0x51", "0x001", "Oryon"},
});

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string file_line(const std::string& path) { return std::string(trimmed(file_text(path))); }

std::vector<Cache> read_caches() {
  std::vector<Cache> caches;
  constexpr int most = 16;
  for (int i = 0; i < most; ++i) {
    const std::string at = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    Cache cache{.level = static_cast<int>(size_of(file_line(at + "level"))),
                .type = file_line(at + "type"),
                .bytes = size_of(file_line(at + "size")),
                .shared_by = std::max(1, processors_in(file_line(at + "shared_cpu_list")))};
    std::transform(cache.type.begin(), cache.type.end(), cache.type.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (cache.level > 0 && cache.bytes > 0) caches.push_back(std::move(cache));
  }
#ifdef _SC_LEVEL1_DCACHE_SIZE
  if (caches.empty()) {  // a container may hide /sys
    const auto add = [&](int level, const char* type, int key) {
      if (const std::int64_t bytes = sysconf(key); bytes > 0)
        caches.push_back({.level = level, .type = type, .bytes = bytes});
    };
    add(1, "data", _SC_LEVEL1_DCACHE_SIZE);
    add(2, "unified", _SC_LEVEL2_CACHE_SIZE);
    add(3, "unified", _SC_LEVEL3_CACHE_SIZE);
  }
#endif
  return caches;
}

}  // namespace

std::string cpuinfo_value(std::string_view cpuinfo, std::string_view key) {
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    const auto colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key)
      return std::string(trimmed(line.substr(colon + 1)));
    cpuinfo.remove_prefix(std::min(line.size() + 1, cpuinfo.size()));
  }
  return {};
}

std::string arm_processors(std::string_view cpuinfo) {
  std::vector<std::pair<std::string, int>> found;
  std::string implementer;
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    if (const std::string value = cpuinfo_value(line, "CPU implementer"); !value.empty()) implementer = value;
    if (const std::string part = cpuinfo_value(line, "CPU part"); !part.empty()) {
      const auto* const core = std::find_if(arm_cores.begin(), arm_cores.end(), [&](const ArmCore& known) {
        return known.implementer == implementer && known.part == part;
      });
      const std::string name =
          core != arm_cores.end() ? std::string(core->name) : fmt::format("{}-{}", implementer, part);
      if (found.empty() || found.back().first != name) found.emplace_back(name, 0);
      ++found.back().second;
    }
    cpuinfo.remove_prefix(std::min(line.size() + 1, cpuinfo.size()));
  }
  std::string text;
  for (const auto& [name, count] : found) text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + name;
  return text;
}

std::int64_t size_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return 0;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  return unit.empty() ? value : 0;
}

int processors_in(std::string_view list) {
  std::int64_t count = 0;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    const auto dash = range.find('-');
    count += dash == std::string_view::npos ? 1 : size_of(range.substr(dash + 1)) - size_of(range.substr(0, dash)) + 1;
    list.remove_prefix(std::min(range.size() + 1, list.size()));
  }
  return static_cast<int>(count);
}

bool Host::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

Host read_host() {
  Host host;
  utsname system{};
  if (uname(&system) == 0) host.architecture = static_cast<const char*>(system.machine);
  const std::string cpuinfo = file_text("/proc/cpuinfo");
  for (const char* key : {"model name", "Model", "Hardware"})
    if (host.cpu.empty()) host.cpu = cpuinfo_value(cpuinfo, key);
  if (const std::string cores = arm_processors(cpuinfo); !cores.empty())
    host.cpu = host.cpu.empty() ? cores : host.cpu + " (" + cores + ")";
  if (host.cpu.empty()) host.cpu = host.architecture;

  std::string flags = cpuinfo_value(cpuinfo, "flags");
  if (flags.empty()) flags = cpuinfo_value(cpuinfo, "Features");
  std::istringstream words(flags);
  const std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  for (const char* feature : told_features)
    if (std::find(all.begin(), all.end(), feature) != all.end()) host.features.emplace_back(feature);

  host.cores = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  host.usable_cores = available_cores();
  host.cpu_quota = cpu_quota();
  host.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  host.memory_limit_bytes = static_cast<std::int64_t>(memory_limit());
  host.caches = read_caches();
  return host;
}

}  // namespace knapsack
