#include "device/host.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/limits.h"

namespace knapsack {
namespace {

// What kernels here use or may use; the rest of a processor's hundred flags says nothing about a model's speed.
constexpr std::array told_features{"avx",      "avx2",     "fma",         "f16c",        "avx_vnni", "avx512f",
                                   "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16",
                                   "asimd",    "asimdhp",  "asimddp",     "i8mm",        "bf16",     "sve",
                                   "sve2",     "svei8mm",  "sme"};

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
