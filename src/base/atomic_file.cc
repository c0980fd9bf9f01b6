#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace knapsack {
namespace {

Error write_error(const std::string& path, const char* what, int reason) {
  return out_of_resource("{}: cannot {}: {}", path, what, std::strerror(reason));
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  static std::atomic<int> serial{0};
  std::string temporary = fmt::format("{}.tmp-{}-{}", path, ::getpid(), serial.fetch_add(1));
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return write_error(path, "create", errno);
  return AtomicFile(path, std::move(temporary), fd);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), fd_(other.fd_), written_(other.written_) {
  other.fd_ = -1;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Result<void> AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return write_error(path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    written_ += static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> AtomicFile::write(const std::string& text) { return write(std::as_bytes(std::span(text))); }

Result<void> AtomicFile::commit() {
  if (::fsync(fd_) != 0) return write_error(path_, "flush", errno);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    return write_error(path_, "write", reason);
  }
  const auto folder = std::filesystem::path(path_).parent_path();
  const int dir = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

}  // namespace knapsack
