// A progress bar on stderr: only on a terminal, only once the work has taken a second, gone when it is done.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace knapsack {

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

}  // namespace knapsack
