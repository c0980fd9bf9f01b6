// What ends the process early: Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGXCPU (a limit on processor time), a page of a
// mapped file that is gone (SIGBUS), memory that Rust code cannot have. A thread of its own waits for the signals, so
// that nothing but the handing over of a SIGBUS runs inside a handler. Unfinished files are removed, programs that were
// started are ended; exit code 130, 128
// + signal, or that of the error. While an Interruptible lives, the first Ctrl-C only asks it to stop, so that a
// generation ends with its figures; a second one ends the process.
#pragma once

#include <atomic>
#include <stop_token>

namespace knapsack {

// First of all: from here on memory that runs out, even for an exception, is a message and exit code 5.
void expect_no_memory();
// Once, before any other thread starts. json: an ended process still prints its one object.
void start_signal_thread(bool json);

class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  [[nodiscard]] bool raised() const { return raised_; }
  void stop() { source_.request_stop(); }  // for reasons of the command's own, such as output that cannot be written

 private:
  friend void signal_arrived(int number);
  std::stop_source source_;
  std::atomic<bool> raised_{false};
};

}  // namespace knapsack
