// Writing files so that a crash or a full disk leaves the old file or none: written aside, fsynced, renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace knapsack {

// What commit() does where another file has appeared under the name.
enum class Existing : std::uint8_t { replaced, kept };

class AtomicFile {
 public:
  // Creates PATH.tmp-PID-N (its name cut where it would be too long) beside `path`. Until commit(), `path` itself is
  // untouched; the destructor removes the rest. A symbolic link is followed; a device or pipe (/dev/null) is written
  // straight, since a rename would replace it.
  static Result<AtomicFile> create(const std::string& path, Existing existing = Existing::replaced);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(const std::string& text);
  [[nodiscard]] std::size_t written() const { return written_; }
  // fsync, rename, fsync of the folder. Of several that write one name with Existing::kept, one succeeds.
  Result<void> commit();

  // Removes what is neither committed nor destroyed yet: for a process about to end by a signal. Any thread; takes no
  // memory.
  static void remove_unfinished();

 private:
  AtomicFile(std::string path, std::string temporary, int fd, Existing existing);
  std::string path_;
  std::string temporary_;
  int fd_;
  std::size_t written_ = 0;
  Existing existing_;
};

}  // namespace knapsack
