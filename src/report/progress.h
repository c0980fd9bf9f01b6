// Signs of life on stderr: only on a terminal, only once the work has taken a second, gone when it is done.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

#include "base/clock.h"

namespace knapsack {

// A bar, for work that can tell how much of it is done.
class Progress {
 public:
  // unit: "B" shows sizes, anything else ("tokens") counts. quiet: never drawn.
  Progress(std::string label, std::string unit, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done, std::uint64_t total);
  void finish();  // erases the bar

 private:
  std::string label_;
  std::string unit_;
  bool enabled_;
  bool drawn_ = false;
  double last_ms_ = 0;
  Stopwatch clock_;
};

// A label and the seconds so far, for work that cannot. A thread of its own draws it.
class Busy {
 public:
  Busy(const std::string& label, bool quiet);
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  void finish();  // erases the line; before anything else is written to stderr

 private:
  std::jthread drawer_;
};

}  // namespace knapsack
