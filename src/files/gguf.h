// GGUF v2 and v3, memory-mapped; one file or -00001-of-0000N splits seen as one. Everything is checked at open:
// counts and sizes are capped before memory is asked for, every tensor lies inside its file, none overlap.
// Format: the public GGUF specification. Not for what the keys mean: import/ knows that.
//
// general.alignment: the specification asks for a multiple of 8, the readers in use for a power of two; either is taken
// (their union holds every file some tool writes or reads), all else is refused. So tensor data may be unaligned for
// its element type (general.alignment 1 or 2): read it with memcpy, or copy it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mmap.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace knapsack {

// An array of fixed-size scalars stays in the file; strings are offsets into it. Valid while the GgufFile lives.
struct GgufArray {
  std::uint32_t type = 0;  // GGUF value type of the elements
  std::int64_t count = 0;
  std::span<const std::byte> data;        // scalars: count elements, unaligned
  std::vector<std::string_view> strings;  // type string
};
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;  // UTF-8, 1 to 255 bytes
  DType dtype{};
  std::vector<std::int64_t> shape;  // row-major, outermost first (the reverse of the file's order); 1 to 4, each > 0
  std::span<const std::byte> data;
  int part = 0;              // which split
  std::uint64_t offset = 0;  // in that file
};

class GgufFile {
 public:
  // A split is opened by its first part; the others are found beside it. Metadata is the first part's.
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);
  virtual ~GgufFile() = default;
  [[nodiscard]] virtual std::uint32_t version() const = 0;
  [[nodiscard]] virtual std::span<const std::pair<std::string, GgufValue>> metadata() const = 0;  // file order
  [[nodiscard]] virtual const GgufValue* find(std::string_view key) const = 0;
  // Typed look-ups: absent is an error naming key and file; so is another type. Integers of any width convert.
  [[nodiscard]] virtual Result<std::int64_t> integer(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<double> number(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::string_view> string(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<bool> boolean(std::string_view key) const = 0;
  // Arrays: f32 takes FLOAT32 (and FLOAT64), i32 any integer type whose values fit, bool BOOL, string STRING.
  [[nodiscard]] virtual Result<std::vector<float>> f32_array(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::vector<std::int32_t>> i32_array(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::vector<bool>> bool_array(std::string_view key) const = 0;
  [[nodiscard]] virtual Result<std::span<const std::string_view>> string_array(std::string_view key) const = 0;
  [[nodiscard]] virtual std::span<const GgufTensor> tensors() const = 0;
  [[nodiscard]] virtual const GgufTensor* tensor(std::string_view name) const = 0;
  [[nodiscard]] virtual std::span<const std::shared_ptr<const MappedFile>> parts() const = 0;
  [[nodiscard]] virtual std::span<const std::byte> header(int part) const = 0;  // header and tensor table, for hashing
  // What is unusual but harmless: gaps between tensors, bytes after the last one. For inspect.
  [[nodiscard]] virtual std::span<const std::string> oddities() const = 0;
};

}  // namespace knapsack
