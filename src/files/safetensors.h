// safetensors: one file, or shards with an index. Memory-mapped and checked at open like GGUF.
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
  DType dtype{};
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
  int part = 0;
  std::uint64_t offset = 0;  // in that file
};

class SafetensorsFiles {
 public:
  // folder/model.safetensors.index.json if there, else folder/model.safetensors. warnings: e.g. a stray single file.
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
