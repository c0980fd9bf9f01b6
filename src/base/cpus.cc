#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

namespace knapsack {
namespace {

// Arm's sysfs says how much a processor can do relative to the fastest one (1024). Where it does not, the highest clock
// stands for that.
std::vector<double> speeds(std::span<const int> cpus, const std::string& root) {
  for (const char* name : {"cpu_capacity", "cpufreq/cpuinfo_max_freq"}) {
    std::vector<double> found;
    for (const int cpu : cpus) {
      std::ifstream file(fmt::format("{}/sys/devices/system/cpu/cpu{}/{}", root, cpu, name));
      double speed = 0;
      if (!(file >> speed) || !(speed > 0)) break;
      found.push_back(speed);
    }
    if (found.size() == cpus.size()) return found;
  }
  return std::vector<double>(cpus.size(), 1.0);
}

static_assert(most_cpus == CPU_SETSIZE - 1);

std::optional<int> to_number(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::vector<int>> number_list(std::string_view text, int most) {
  std::vector<bool> listed;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view range = text.substr(begin, end - begin);
    const std::size_t dash = range.find('-');
    const auto first = to_number(range.substr(0, dash), most);
    const auto last = dash == std::string_view::npos ? first : to_number(range.substr(dash + 1), most);
    if (!first || !last || *last < *first) return std::nullopt;
    listed.resize(std::max(listed.size(), static_cast<std::size_t>(*last) + 1));
    std::fill(listed.begin() + *first, listed.begin() + *last + 1, true);
    begin = end + 1;
  }
  std::vector<int> numbers;
  for (std::size_t i = 0; i < listed.size(); ++i)
    if (listed[i]) numbers.push_back(static_cast<int>(i));
  return numbers;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

Result<std::vector<int>> choose_cpus(std::string_view text, std::span<const int> allowed, const std::string& root) {
  if (text == "big" || text == "little") {
    // Phones have up to three classes; the upper two lie close together, the small ones at a third of them.
    constexpr double big_share = 0.6;
    const auto all = speeds(allowed, root);
    const double fastest = all.empty() ? 0 : *std::max_element(all.begin(), all.end());
    std::vector<int> cpus;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((all[i] >= big_share * fastest) == (text == "big")) cpus.push_back(allowed[i]);
    if (cpus.empty()) return usage_error("--cpus {}: this machine's processors are all alike", text);
    return cpus;
  }
  auto cpus = number_list(text);
  if (!cpus) return usage_error("--cpus: expected processors as 0-3,6, or big or little; found \"{}\"", text);
  for (const int cpu : *cpus)
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end())
      return usage_error("--cpus {}: this process may not run on processor {}", text, cpu);
  return std::move(*cpus);
}

Result<void> run_on(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0)
    return out_of_resource("the system does not let this process choose its processors: {}", std::strerror(errno));
  return {};
}

}  // namespace knapsack
