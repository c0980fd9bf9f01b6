#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include "base/atomic_file.h"
#include "base/check.h"
#include "cli/json_text.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

struct State {
  std::mutex mutex;
  Interruptible* current = nullptr;
  bool json = false;
};
State& state() {
  static State* const made = new State;  // never destroyed: the signal thread outlives main
  return *made;
}

[[noreturn]] void end_process(int number, bool json) {
  AtomicFile::remove_unfinished();
  const auto put = [](int fd, const std::string& text) {
    [[maybe_unused]] const ssize_t ignored = ::write(fd, text.data(), text.size());
  };
  if (is_terminal(STDERR_FILENO)) put(STDERR_FILENO, "\n");
  if (json) put(STDOUT_FILENO, json_error({Code::interrupted, "interrupted"}) + "\n");
  if (number == SIGINT) ::_exit(static_cast<int>(Code::interrupted));
  ::_exit(128 + number);
}

}  // namespace

void signal_arrived(int number) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (number == SIGINT && s.current != nullptr && !s.current->raised()) {
    s.current->raised_ = true;
    s.current->stop();
    return;
  }
  end_process(number, s.json);
}

void start_signal_thread(bool json) {
  state().json = json;
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction present {};
    // What the parent had ignored (nohup, a background job) stays ignored.
    if (::sigaction(number, nullptr, &present) == 0 && present.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    while (true) {
      int number = 0;
      if (::sigwait(&set, &number) == 0) signal_arrived(number);
    }
  }).detach();
}

Interruptible::Interruptible() {
  const std::lock_guard lock(state().mutex);
  CHECK(state().current == nullptr);
  state().current = this;
}

Interruptible::~Interruptible() {
  const std::lock_guard lock(state().mutex);
  state().current = nullptr;
}

}  // namespace knapsack
