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

// How a file lies in its folder until commit(): without a name, so that nothing is left of it however its process ends,
// or, where the file system or the machine has no such files, as PATH.tmp-PID-N (its name cut where it would be too
// long).
enum class Aside : std::uint8_t { nameless, named };

class AtomicFile {
 public:
  // Until commit(), `path` itself is untouched; the destructor removes the rest. A symbolic link is followed; a device
  // or pipe (/dev/null) is written straight, since a rename would replace it. aside: named is for tests, and what
  // nameless falls back to.
  static Result<AtomicFile> create(const std::string& path, Existing existing = Existing::replaced,
                                   Aside aside = Aside::nameless);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(const std::string& text);
  // As many zeros: a hole, which takes no disk where the file system has such.
  Result<void> skip(std::size_t bytes);
  [[nodiscard]] std::size_t written() const { return written_; }
  // fsync, rename, fsync of the folder. Of several that write one name with Existing::kept, one succeeds.
  Result<void> commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd, Existing existing);
  std::string path_;
  std::string temporary_;  // empty: it has no name of its own
  int fd_;
  bool straight_ = false;
  std::size_t written_ = 0;
  Existing existing_;
};

}  // namespace knapsack
