// A whole file mapped read-only. Owns the mapping; spans taken from it must not outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace knapsack {

class MappedFile {
 public:
  // Regular files only (a directory, FIFO or device is refused by name). An empty file maps to an empty span.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_;
  std::size_t size_;
};

// Asks the kernel to read these bytes of a mapped file into memory, in the background.
void prefetch_pages(std::span<const std::byte> bytes);

// What lies wholly in these bytes of a mapped file takes no memory until it is read again. Nothing happens to bytes
// that are no mapped file's.
void release_pages(std::span<const std::byte> bytes);

}  // namespace knapsack
