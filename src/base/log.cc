#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

namespace knapsack {
namespace {
std::atomic<LogLevel> current{LogLevel::warning};
}

void set_log_level(LogLevel level) { current = level; }
LogLevel log_level() { return current; }

void log_line(LogLevel level, std::string_view text) {
  if (level > current.load()) return;
  std::string line = "knapsack: ";
  if (level == LogLevel::warning) line += isatty(STDERR_FILENO) ? "\033[33mwarning:\033[0m " : "warning: ";
  line.append(text).push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace knapsack
