// NumPy's archives of arrays (numpy.savez, savez_compressed): a ZIP of .npy members. Read only. Checked at open: every
// member lies in the file, every array's bytes are its shape's. A stored member is read where it lies, and when it is
// asked for; a deflated one is unpacked at open, checked by its CRC.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "base/result.h"

namespace knapsack {

// Bytes that follow one another as C does, little-endian.
enum class NpyType : std::uint8_t { f16, f32, f64, i32, i64 };

struct NpyArray {
  std::string name;  // of the member, without ".npy"
  NpyType type{};
  std::vector<std::int64_t> shape{};  // empty: a scalar
  std::span<const std::byte> data{};  // need not be aligned; of the file, or where it was deflated of:
  std::shared_ptr<const std::vector<std::byte>> unpacked{};

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool floats() const { return type <= NpyType::f64; }
  // `count` elements from `first` on, of an array of floats or of integers.
  void floats_at(std::int64_t first, std::span<float> out) const;
  [[nodiscard]] std::int64_t integer_at(std::int64_t index) const;
};

// `path` only names the file in messages. Spans are into `bytes`. What deflated members unpack to is held in memory, so
// they may hold no more than 32 times the file's bytes and 16 MiB; 1,000 times are what a file could make us ask for.
Result<std::vector<NpyArray>> parse_npz(std::span<const std::byte> bytes, const std::string& path);

struct NpzFile {
  std::shared_ptr<const MappedFile> file;
  std::vector<NpyArray> arrays;
};
Result<NpzFile> open_npz(const std::string& path);

}  // namespace knapsack
