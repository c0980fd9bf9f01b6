#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace knapsack {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<RegularFile> open_regular(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) {
    const int reason = errno;
    if (reason == EMFILE || reason == ENFILE || reason == ENOMEM)
      return out_of_resource("{}: cannot open: {}", path, std::strerror(reason));
    return bad_input("{}: cannot open: {}", path, std::strerror(reason));
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return bad_input("{}: cannot open: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return bad_input("{}: expected a regular file, found {}", path, kind_of(status.st_mode));
  return RegularFile{std::move(descriptor), static_cast<std::size_t>(status.st_size)};
}

Result<std::string> read_to_end(int fd, const std::string& name, std::size_t limit, std::size_t expected) {
  constexpr std::size_t block = 1 << 16;
  std::string text;
  text.reserve(expected + block);
  while (true) {
    const std::size_t had = text.size();
    text.resize(had + block);
    const ssize_t n = ::read(fd, text.data() + had, block);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return bad_input("{}: cannot read: {}", name, std::strerror(errno));
    if (text.size() > limit) return bad_input("{}: more than the {} bytes allowed here", name, limit);
  }
}

}  // namespace knapsack
