#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/check.h"
#include "base/leftovers.h"
#include "base/utf8.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace knapsack {
namespace {

using Clock = std::chrono::steady_clock;

constexpr off_t most_said = 2000;              // bytes of standard error that a message has
constexpr std::chrono::milliseconds look{50};  // how often a stop is looked for

// Everything posix_spawn takes, freed at the end.
struct Spawn {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  Spawn() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
};

}  // namespace

Result<std::unique_ptr<Process>> Process::start(std::vector<std::string> argv, std::string what) {
  CHECK(!argv.empty());
  std::unique_ptr<Process> made(new Process());
  made->what_ = std::move(what);
  std::array<int, 2> pair{-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return out_of_resource("cannot start {}: {}", made->what_, std::strerror(errno));
  made->socket_ = pair[0];
  made->errors_ = memfd_create("stderr", MFD_CLOEXEC);
  if (made->errors_ < 0) {
    close(pair[1]);
    return out_of_resource("cannot start {}: {}", made->what_, std::strerror(errno));
  }
  Spawn spawn;
  posix_spawn_file_actions_adddup2(&spawn.actions, pair[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.actions, pair[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.actions, made->errors_, STDERR_FILENO);
  // Signals as a shell leaves them: this program blocks some and ignores one.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  const int failed = posix_spawnp(&made->pid_, words[0], &spawn.actions, &spawn.attributes, words.data(), environ);
  close(pair[1]);
  if (failed == 0) {
    remember_process(made->pid_);
    return made;
  }
  made->pid_ = -1;
  if (failed == ENOMEM || failed == EAGAIN)
    return out_of_resource("cannot start {} ({}): {}", made->what_, argv[0], std::strerror(failed));
  return usage_error("cannot start {} ({}): {}", made->what_, printable(argv[0]), std::strerror(failed));
}

Process::~Process() {
  kill();
  if (socket_ >= 0) close(socket_);
  if (errors_ >= 0) close(errors_);
}

void Process::kill() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // before it had its group
  forget_process(pid_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string Process::said() const {
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - most_said);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t got = pread(errors_, text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return "; it said nothing on standard error";
  // A message is one line.
  std::string line;
  line.reserve(text.size());
  for (const char c : text) line += c == '\n' ? " | " : std::string(1, c);
  return fmt::format("; its standard error{}: {}", from > 0 ? " ends" : "", line);
}

// It closed its output: whatever its group still does is ended as well.
Error Process::ended() {
  if (pid_ < 0) return bad_input("{} has ended", what_);
  int status = 0;
  pid_t got = 0;
  // It is as good as gone; one that closed its output and lives on is not waited for.
  for (int i = 0; i < 100 && got == 0; ++i) {
    got = waitpid(pid_, &status, WNOHANG);
    if (got == 0) poll(nullptr, 0, 10);
  }
  const std::string words = said();
  if (got != pid_) {
    kill();
    return bad_input("{} closed its output before it had answered{}", what_, words);
  }
  ::kill(-pid_, SIGKILL);
  forget_process(pid_);
  pid_ = -1;
  if (WIFSIGNALED(status)) return bad_input("{} was ended by signal {}{}", what_, WTERMSIG(status), words);
  return bad_input("{} ended with exit code {}{}", what_, WEXITSTATUS(status), words);
}

Result<void> Process::wait_for(short events, Clock::time_point until, const std::stop_token& stop) {
  for (;;) {
    if (stop.stop_requested()) {
      kill();
      return Error{Code::interrupted, fmt::format("stopped while waiting for {}", what_)};
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) {
      kill();
      return out_of_resource("{} took longer than {} s and was ended; allow more (--time-limit){}", what_,
                             static_cast<double>(limit_.count()) / 1000, said());
    }
    pollfd one{.fd = socket_, .events = events, .revents = 0};
    if (poll(&one, 1, static_cast<int>(std::min(left, look).count())) > 0) return {};
  }
}

Result<void> Process::send(std::string_view line, Clock::time_point until, const std::stop_token& stop) {
  while (!line.empty()) {
    TRY_VOID(wait_for(POLLOUT, until, stop));
    const ssize_t sent = ::send(socket_, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return ended();
    line.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::string> Process::ask(std::string_view line, std::chrono::milliseconds limit, const std::stop_token& stop) {
  limit_ = limit;
  const auto until = Clock::now() + limit;
  if (pid_ < 0) return ended();
  TRY_VOID(send(line, until, stop));
  TRY_VOID(send("\n", until, stop));
  std::array<char, 1 << 14> part{};
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string answer = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return answer;
    }
    if (pending_.size() > most_bytes) {
      kill();
      return bad_input("{} wrote {} bytes without an end of line", what_, pending_.size());
    }
    TRY_VOID(wait_for(POLLIN, until, stop));
    const ssize_t got = recv(socket_, part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return ended();
    pending_.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace knapsack
