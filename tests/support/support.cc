#include "support/support.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace knapsack::testing {

std::filesystem::path source_dir() { return KNAPSACK_SOURCE_DIR; }
std::filesystem::path data_path(const std::string& relative) { return source_dir() / "tests" / relative; }
std::string binary() { return KNAPSACK_BINARY; }

CommandResult run(const std::vector<std::string>& argv, const std::string& stdin_text,
                  const std::vector<std::string>& env) {
  int in[2], out[2], err[2];
  if (pipe(in) != 0 || pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    for (int fd = 3; fd < 256; ++fd) close(fd);
    for (const auto& e : env) putenv(strdup(e.c_str()));
    std::vector<char*> args;
    for (const auto& a : argv) args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    execvp(args[0], args.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  signal(SIGPIPE, SIG_IGN);
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  CommandResult result;
  std::size_t sent = 0;
  int input = in[1];
  bool out_open = true, err_open = true;
  if (stdin_text.empty()) {
    close(input);
    input = -1;
  }
  while (out_open || err_open) {
    pollfd fds[3] = {{out_open ? out[0] : -1, POLLIN, 0}, {err_open ? err[0] : -1, POLLIN, 0}, {input, POLLOUT, 0}};
    poll(fds, 3, -1);
    char buffer[65536];
    if (fds[0].revents != 0) {
      const ssize_t n = read(out[0], buffer, sizeof buffer);
      if (n > 0)
        result.out.append(buffer, static_cast<std::size_t>(n));
      else
        out_open = false;
    }
    if (fds[1].revents != 0) {
      const ssize_t n = read(err[0], buffer, sizeof buffer);
      if (n > 0)
        result.err.append(buffer, static_cast<std::size_t>(n));
      else
        err_open = false;
    }
    if (input >= 0 && fds[2].revents != 0) {
      const ssize_t n = write(input, stdin_text.data() + sent, stdin_text.size() - sent);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 || sent == stdin_text.size()) {
        close(input);
        input = -1;
      }
    }
  }
  if (input >= 0) close(input);
  close(out[0]);
  close(err[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.peak_rss_kib = usage.ru_maxrss;
  return result;
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "knapsack-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace knapsack::testing
