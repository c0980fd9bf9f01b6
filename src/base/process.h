// Another program, run beside this one: a line goes to its standard input, a line comes back from its standard output,
// and what it says on standard error is kept for messages. It is the leader of a group of its own, which ends with the
// object. Not for a shell: arguments are what they are.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace knapsack {

class Process {
 public:
  // argv[0]: a path, or a name that is looked for on PATH. what: how messages call it. Usage: there is no such program.
  static Result<std::unique_ptr<Process>> start(std::vector<std::string> argv, std::string what);
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Sends a line and waits for one. An error, after which it no longer runs: it ended (with what it said last, and its
  // exit code), it took longer than the limit, it said more than most_bytes without an end of line, or was stopped.
  Result<std::string> ask(std::string_view line, std::chrono::milliseconds limit, const std::stop_token& stop);

  static constexpr std::size_t most_bytes = std::size_t{64} << 20;

 private:
  Process() = default;
  Result<void> send(std::string_view line, std::chrono::steady_clock::time_point until, const std::stop_token& stop);
  Result<void> wait_for(short events, std::chrono::steady_clock::time_point until, const std::stop_token& stop);
  Error ended();
  void kill();
  [[nodiscard]] std::string said() const;

  std::string what_;
  int pid_ = -1;
  int socket_ = -1;  // its standard input and output
  int errors_ = -1;  // a file in memory that its standard error goes to
  std::string pending_;
  std::chrono::milliseconds limit_{0};
};

}  // namespace knapsack
