#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/leftovers.h"

namespace knapsack {
namespace {

// A wrong path is a wrong argument; all else is something that ran out.
Error write_error(const std::string& path, const char* what, int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENAMETOOLONG:
      return usage_error("{}: cannot {}: {}", path, what, std::strerror(reason));
    default:
      return out_of_resource("{}: cannot {}: {}", path, what, std::strerror(reason));
  }
}

// The path with `ending` added to its name, of which so much is left out as would make it too long for a folder.
std::string beside(const std::filesystem::path& path, const std::string& ending) {
  std::string name = path.filename().string();
  if (name.size() <= NAME_MAX && name.size() + ending.size() > NAME_MAX) {
    std::size_t kept = NAME_MAX - ending.size();
    while (kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xc0U) == 0x80) --kept;  // no half characters
    name.resize(kept);
  }
  return (path.parent_path() / (name + ending)).string();
}

// A new file of a name beside the path that no other has. make: from the name whether it was made, errno why not.
template <class Make>
std::string make_beside(const std::string& path, const Make& make) {
  static std::atomic<int> serial{0};
  std::string name;
  do {
    name = beside(path, fmt::format(".tmp-{}-{}", ::getpid(), serial.fetch_add(1)));
    if (make(name)) return name;
  } while (errno == EEXIST);  // left by a killed process; in a container all have the same id
  return "";
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

int open_nameless(const std::string& path) {
  return ::open(folder_of(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
}

// Gives a nameless file its name, where no other has it; errno says why not.
bool give_name(int fd, const std::string& name) {
  return ::linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) ==
         0;
}

// Whether such a file could be named later: tried, since a file system may refuse the link, or /proc be absent.
bool nameless_files(const std::string& path) {
  const int fd = open_nameless(path);
  if (fd < 0) return false;
  const std::string name = make_beside(path, [&](const std::string& n) { return give_name(fd, n); });
  if (!name.empty()) ::unlink(name.c_str());
  ::close(fd);
  return !name.empty();
}

// errno says why not. A hard link is how POSIX gives a name only where there is none; a file system without links (FAT)
// has no such step, and there the name is looked at first.
bool take_name(const std::string& temporary, const std::string& path, Existing existing) {
  if (existing == Existing::kept) {
    if (::link(temporary.c_str(), path.c_str()) == 0) {
      ::unlink(temporary.c_str());
      return true;
    }
    if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS && errno != EMLINK) return false;
    if (::access(path.c_str(), F_OK) == 0) {
      errno = EEXIST;
      return false;
    }
  }
  return ::rename(temporary.c_str(), path.c_str()) == 0;
}

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& given, Existing existing, Aside aside) {
  std::error_code failed;
  std::string path = given;
  const auto status = std::filesystem::status(path, failed);
  if (std::filesystem::is_directory(status)) return write_error(given, "write", EISDIR);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return write_error(given, "open", errno);
    AtomicFile file(path, "", fd, existing);
    file.straight_ = true;
    return file;
  }
  // After the above: where /dev/stdout leads to a pipe, there is no such path.
  if (std::filesystem::is_symlink(path, failed)) {
    path = std::filesystem::weakly_canonical(path, failed).string();
    if (failed) return write_error(given, "create", failed.value());  // links that lead in a circle
  }
  if (aside == Aside::nameless && nameless_files(path)) {
    const int fd = open_nameless(path);
    if (fd < 0) return write_error(given, "create", errno);
    return AtomicFile(path, "", fd, existing);
  }
  int fd = -1;
  std::string temporary = make_beside(path, [&](const std::string& name) {
    fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd >= 0;
  });
  if (fd < 0) return write_error(given, "create", errno);
  remember_path(temporary);
  return AtomicFile(path, std::move(temporary), fd, existing);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd, Existing existing)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), existing_(existing) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(other.fd_),
      straight_(other.straight_),
      written_(other.written_),
      existing_(other.existing_) {
  other.fd_ = -1;
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_path(temporary_);
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

Result<void> AtomicFile::skip(std::size_t bytes) {
  if (straight_) {  // no holes in a pipe
    constexpr std::size_t block = 1 << 12;
    static constexpr std::array<std::byte, block> zeros{};
    for (; bytes > 0; bytes -= std::min(bytes, block)) TRY_VOID(write(std::span(zeros).first(std::min(bytes, block))));
    return {};
  }
  const auto end = static_cast<off_t>(written_ + bytes);
  if (::ftruncate(fd_, end) != 0 || ::lseek(fd_, end, SEEK_SET) != end) return write_error(path_, "write", errno);
  written_ += bytes;
  return {};
}

Result<void> AtomicFile::commit() {
  if (straight_) {
    if (::close(std::exchange(fd_, -1)) != 0) return write_error(path_, "write", errno);
    return {};
  }
  if (::fsync(fd_) != 0) return write_error(path_, "flush", errno);
  const bool nameless = temporary_.empty();
  bool done = false;
  if (nameless && existing_ == Existing::kept) {
    done = give_name(fd_, path_);
  } else {
    if (nameless) {  // a rename is how a name passes from one file to another at once
      temporary_ = make_beside(path_, [&](const std::string& name) { return give_name(fd_, name); });
      if (temporary_.empty()) return write_error(path_, "write", errno);
      remember_path(temporary_);
    }
    done = ::close(std::exchange(fd_, -1)) == 0 && take_name(temporary_, path_, existing_);
  }
  const int reason = errno;
  if (!temporary_.empty()) {
    if (!done) ::unlink(temporary_.c_str());
    forget_path(temporary_);
  }
  if (!done) {
    if (reason == EEXIST) return usage_error("{}: another file of this name appeared meanwhile; it was kept", path_);
    return write_error(path_, "write", reason);
  }
  const int dir = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

}  // namespace knapsack
