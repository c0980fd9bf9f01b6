// safetensors: one file, or shards with an index. Memory-mapped and checked at open like GGUF: the header is JSON with
// every name once, each span fits shape x dtype, and the tensors cover the data without holes or overlap.
//
// Tensor data may be unaligned for its element type (old writers did not pad the header): read it with memcpy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace knapsack {

struct SafeTensor {
  std::string name;
  // Types that the format list lacks keep their bits in the integer type of the same width: U8 and BOOL are I8, U16 is
  // I16, U32 is I32, U64 is I64. `stored` tells them apart; it is the name in the file ("U8").
  DType dtype{};
  std::string stored;
  std::vector<std::int64_t> shape;  // empty: a scalar; no dimension is 0
  std::span<const std::byte> data;
  int part = 0;
  std::uint64_t offset = 0;  // in that file
};

class SafetensorsFiles {
 public:
  // folder/model.safetensors.index.json if there, else folder/model.safetensors, else the folder's only
  // *.safetensors.index.json, else its only *.safetensors (GPTQ tools name files gptq_model-4bit-128g.safetensors).
  // With an index, exactly the shards that it names are read. warnings: a stray single file, an unnamed tensor ...
  static Result<std::shared_ptr<const SafetensorsFiles>> open_folder(const std::string& folder,
                                                                     std::vector<std::string>& warnings);
  static Result<std::shared_ptr<const SafetensorsFiles>> open_file(const std::string& path);
  virtual ~SafetensorsFiles() = default;
  [[nodiscard]] virtual std::span<const SafeTensor> tensors() const = 0;
  [[nodiscard]] virtual const SafeTensor* tensor(std::string_view name) const = 0;
  [[nodiscard]] virtual std::span<const std::shared_ptr<const MappedFile>> parts() const = 0;
  [[nodiscard]] virtual std::span<const std::byte> header(int part) const = 0;
};

}  // namespace knapsack
