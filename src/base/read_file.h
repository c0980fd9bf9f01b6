// Files opened and read as they are. Not for weights: mmap.h. For small texts: read_text_file in json.h.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace knapsack {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct RegularFile {
  Descriptor descriptor;
  std::size_t size = 0;  // what the file system says; /proc says 0 of files that hold something
};

// A directory, FIFO or device is refused by name, and not waited for.
Result<RegularFile> open_regular(const std::string& path);

// What is left to read, at most `limit` bytes; memory is taken for `expected` of them at once.
Result<std::string> read_to_end(int fd, const std::string& name, std::size_t limit, std::size_t expected = 0);

}  // namespace knapsack
