// Writes a GGUF v3 file: metadata in the order added, tensors aligned to 32, aside and renamed. One tensor is in memory
// at a time. Not for other alignments or splits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace knapsack {

class GgufWriter {
 public:
  // Keys and tensor names are each added once, are UTF-8 and not empty; names have at most 63 bytes (llama.cpp's
  // limit).
  void add_u32(std::string key, std::uint32_t value);
  void add_f32(std::string key, float value);
  void add_bool(std::string key, bool value);
  void add_string(std::string key, std::string_view value);
  void add_strings(std::string key, std::span<const std::string> values);
  void add_f32s(std::string key, std::span<const float> values);
  void add_i32s(std::string key, std::span<const std::int32_t> values);
  // `produce` is called once, during write(), and fills exactly the tensor's bytes.
  // shape: row-major, outermost first; 1 to 4 dimensions, rows of whole blocks. dtype: one that GGUF has.
  void add_tensor(std::string name, DType dtype, std::vector<std::int64_t> shape,
                  std::function<Result<void>(std::span<std::byte>)> produce);
  // progress: called with bytes of tensors done and in all. After an error, `path` is as it was before.
  Result<void> write(const std::string& path, const std::function<void(std::uint64_t, std::uint64_t)>& progress = {},
                     Existing existing = Existing::replaced);

 private:
  struct Entry {
    std::string key;
    std::vector<std::byte> encoded;  // type and value
  };
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::function<Result<void>(std::span<std::byte>)> produce;
  };
  void add(std::string key, std::vector<std::byte> encoded);
  [[nodiscard]] std::vector<std::byte> encode_header() const;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
};

}  // namespace knapsack
