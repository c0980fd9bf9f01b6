#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "base/check.h"
#include "base/leftovers.h"
#include "base/lost_page.h"
#include "cli/json_text.h"
#include "cli/output.h"
#include "report/terminal.h"
#include "text/out_of_memory.h"

namespace knapsack {
namespace {

struct State {
  std::mutex mutex;
  Interruptible* current = nullptr;
  bool json = false;
};
State& state() {
  // Never destroyed: the signal thread outlives main. Not from the heap: it is asked when memory has run out, too.
  alignas(State) static std::array<std::byte, sizeof(State)> place;
  static State* const made = new (place.data()) State;
  return *made;
}

[[noreturn]] void end_process(int exit_code, const Error& error) {
  remove_leftovers();
  if (is_terminal(STDERR_FILENO)) say("\n");
  if (error.code != Code::interrupted) print_error(error);
  if (state().json) {
    const std::string text = json_error(error, exit_code) + "\n";
    [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, text.data(), text.size());
  }
  ::_exit(exit_code);
}

// As cli_main tells it of std::bad_alloc, in words that need no memory.
void end_without_memory() {
  remove_leftovers();
  say("knapsack: error: out of memory; try a smaller --ctx, or a smaller model\n");
  constexpr std::string_view json =
      "{\"error\": {\"code\": 5, \"message\": \"out of memory; try a smaller --ctx, or a smaller model\"}}\n";
  if (state().json) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, json.data(), json.size());
  }
  ::_exit(static_cast<int>(Code::resource));
}

// Without an exception there was no memory to throw one with.
[[noreturn]] void on_terminate() {
  if (std::current_exception() == nullptr) end_without_memory();
  std::abort();
}

// Carries the address of a lost page to the signal thread. (Not a constant: the C library keeps some for itself.)
int lost_page_signal() { return SIGRTMIN; }

// The thread that met a lost page cannot go on, and inside a handler it cannot tell either: it hands the address over
// and waits for the end of the process.
void on_bus_error(int /*number*/, siginfo_t* info, void* /*context*/) {
  sigval address{};
  address.sival_ptr = info->si_addr;
  ::sigqueue(::getpid(), lost_page_signal(), address);
  while (true) ::pause();
}

void page_was_lost(const void* address) {
  if (const auto error = lost_page(address)) end_process(static_cast<int>(error->code), *error);
  std::signal(SIGBUS, SIG_DFL);  // none of our files: a mistake in the program, which deserves its core dump
  ::kill(::getpid(), SIGBUS);
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
  end_process(number == SIGINT ? static_cast<int>(Code::interrupted) : 128 + number,
              {Code::interrupted, "interrupted"});
}

void expect_no_memory() {
  std::set_terminate(on_terminate);
  when_out_of_memory(end_without_memory);
}

void start_signal_thread(bool json) {
  state().json = json;
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) {
    struct sigaction present {};
    // What the parent had ignored (nohup, a background job) stays ignored.
    if (::sigaction(number, nullptr, &present) == 0 && present.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  sigaddset(&set, lost_page_signal());
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    while (true) {
      siginfo_t info{};
      const int number = ::sigwaitinfo(&set, &info);
      if (number == lost_page_signal()) {
        page_was_lost(info.si_ptr);
      } else if (number > 0) {
        signal_arrived(number);
      }
    }
  }).detach();
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
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
