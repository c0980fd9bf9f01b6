// An imported ONNX model on named arrays, by the reference kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/threads.h"
#include "files/npz.h"
#include "import/onnx.h"

namespace knapsack {

struct NamedTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> dims{};
  std::vector<std::byte> bytes{};

  [[nodiscard]] std::int64_t elements() const { return std::ssize(bytes) / format(dtype).block_bytes; }
  [[nodiscard]] double at(std::int64_t index) const;  // exact for floats and for whole numbers up to 2^53
};

// Each input by its name from `arrays`, which may hold others too; numbers are converted to the input's type where it
// is another (NumPy's archives have no bool here). The outputs under the file's names.
Result<std::vector<NamedTensor>> run_onnx(const ImportedOnnx& model, std::span<const NpyArray> arrays,
                                          ThreadPool& pool);

// A pin for each input that is among the arrays: its array's shape.
OnnxPins pins_from(std::span<const NpyArray> arrays, const OnnxModel& model);

}  // namespace knapsack
