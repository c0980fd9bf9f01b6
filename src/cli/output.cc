#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "report/terminal.h"

namespace knapsack {

Result<void> Output::write(std::string_view text) {
  constexpr std::size_t flush_at = 1 << 16;
  buffer_.append(text);
  if (buffer_.size() >= flush_at) return flush();
  return {};
}

Result<void> Output::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, left.data(), left.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      reader_gone_ = errno == EPIPE;
      buffer_.clear();
      return out_of_resource("cannot write to standard output: {}", std::strerror(errno));
    }
    used_ = true;
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  buffer_.clear();
  return {};
}

void prepare_standard_streams() {
  // A closed stdout is opened for reading, so that writing to it fails as it should.
  for (const auto& [fd, mode] : {std::pair{0, O_RDONLY}, {1, O_RDONLY}, {2, O_WRONLY}})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", mode);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files (ulimit -f): write() then fails with EFBIG
}

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void print_error(const Error& error) {
  const bool colour = use_colour(STDERR_FILENO);
  say(fmt::format("knapsack: {}error:{} {}\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "",
                  one_line(error.message)));
}

}  // namespace knapsack
