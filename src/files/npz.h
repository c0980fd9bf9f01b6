// NumPy's archives of arrays (numpy.savez): a ZIP of .npy members. Read only; members stored, not compressed. Checked
// at open: every member lies in the file, every array's bytes are its shape's.
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
  std::span<const std::byte> data{};  // of the file; need not be aligned

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool floats() const { return type <= NpyType::f64; }
  // `count` elements from `first` on, of an array of floats or of integers.
  void floats_at(std::int64_t first, std::span<float> out) const;
  [[nodiscard]] std::int64_t integer_at(std::int64_t index) const;
};

// `path` only names the file in messages. Spans are into `bytes`.
Result<std::vector<NpyArray>> parse_npz(std::span<const std::byte> bytes, const std::string& path);

struct NpzFile {
  std::shared_ptr<const MappedFile> file;
  std::vector<NpyArray> arrays;
};
Result<NpzFile> open_npz(const std::string& path);

}  // namespace knapsack
