#include "base/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace knapsack {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int reason = errno;
    if (reason == EMFILE || reason == ENFILE || reason == ENOMEM)
      return out_of_resource("{}: cannot open: {}", path, std::strerror(reason));
    return bad_input("{}: cannot open: {}", path, std::strerror(reason));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return bad_input("{}: expected a regular file, found {}", path,
                     S_ISDIR(status.st_mode) ? "a directory" : "something else");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int reason = errno;
      ::close(fd);
      return out_of_resource("{}: cannot map {} bytes: {}", path, size, std::strerror(reason));
    }
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefetch() const {
  if (size_ > 0) ::madvise(const_cast<std::byte*>(data_), size_, MADV_WILLNEED);
}

}  // namespace knapsack
