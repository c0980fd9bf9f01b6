#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>

#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr double show_after_ms = 1000;  // work shorter than this needs no bar
constexpr double redraw_ms = 100;
constexpr std::chrono::milliseconds look_every(100);
constexpr int room_for_seconds = 12;
constexpr const char* erase = "\r\033[K";

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
  if (drawn_) std::fputs(erase, stderr);
  drawn_ = false;
  enabled_ = false;
}

Busy::Busy(const std::string& label, bool quiet) {
  if (quiet || !is_terminal(STDERR_FILENO)) return;
  const auto draw = [shown = one_line(label)](const std::stop_token& stop) {
    const Stopwatch clock;
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    int drawn = 0;
    while (!stopped.wait_for(lock, stop, look_every, [&] { return stop.stop_requested(); })) {
      const int seconds = static_cast<int>(clock.ms() / show_after_ms);
      if (seconds == drawn) continue;
      drawn = seconds;
      const bool fits = static_cast<int>(display_width(shown)) + room_for_seconds < terminal_width(STDERR_FILENO);
      std::fprintf(stderr, "\r%s ... %d s\033[K", (fits ? shown : shown.substr(0, shown.find(' '))).c_str(), seconds);
    }
    if (drawn > 0) std::fputs(erase, stderr);
  };
  try {
    drawer_ = std::jthread(draw);
  } catch (const std::system_error&) {
    // Without a thread to spare the work goes on unseen.
  }
}

Busy::~Busy() { finish(); }

void Busy::finish() {
  if (!drawer_.joinable()) return;
  drawer_.request_stop();
  drawer_.join();
}

}  // namespace knapsack
