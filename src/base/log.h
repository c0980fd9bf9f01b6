// Messages for the person at the terminal: always on stderr, coloured only when stderr is a terminal.
// Not for results: those go to stdout.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace knapsack {

enum class LogLevel { quiet, warning, info, debug };

void set_log_level(LogLevel level);
LogLevel log_level();
void log_line(LogLevel level, std::string_view text);

template <class... A>
void warn(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::warning, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A&&... a) {
  log_line(LogLevel::info, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace knapsack
