#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr double show_after_ms = 1000;  // work shorter than this needs no bar
constexpr double redraw_ms = 100;

std::string amount(std::uint64_t value, const std::string& unit) {
  if (unit == "B") return format_bytes(static_cast<double>(value));
  return format_count(static_cast<long long>(value));
}

}  // namespace

Progress::Progress(std::string label, std::string unit, bool quiet)
    : label_(std::move(label)), unit_(std::move(unit)), enabled_(!quiet && is_terminal(STDERR_FILENO)) {}

Progress::~Progress() { finish(); }

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_ || total == 0) return;
  const double now = clock_.ms();
  if (now < show_after_ms || now - last_ms_ < redraw_ms) return;
  last_ms_ = now;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const double left_s = share > 0 ? now / 1000 * (1 - share) / share : 0;
  const std::string tail = fmt::format(" {:3.0f}%  {} / {}{}  {:.0f} s left", share * 100, amount(done, unit_),
                                       amount(total, unit_), unit_ == "B" ? "" : " " + unit_, left_s);
  const int space = terminal_width(STDERR_FILENO) - 1;
  const int bar = std::min(30, space - static_cast<int>(display_width(label_) + display_width(tail)) - 3);
  std::string line = label_;
  if (bar >= 5) {
    const int full = static_cast<int>(share * bar);
    line += fmt::format(" [{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                        std::string(static_cast<std::size_t>(bar - full), '.'));
  }
  line += tail;
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
  enabled_ = false;
}

}  // namespace knapsack
