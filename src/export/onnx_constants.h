// Constants of an ONNX model that is being written: decoded from whatever they are stored in, transposed where they are
// seen so, a panel of columns at a time. Not for which constants there are: onnx_builder.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/onnx.h"
#include "files/onnx_writer.h"
#include "tensor/weight.h"

namespace knapsack {

// Either a weight or bytes.
struct OnnxConstant {
  std::string name;
  OnnxType type{};
  std::vector<std::int64_t> dims{};
  std::shared_ptr<const Weight> weight{};
  bool transposed = false;  // the weight's last two dimensions are exchanged
  std::shared_ptr<const std::vector<std::byte>> bytes{};

  [[nodiscard]] std::uint64_t size() const { return onnx_bytes(type, dims).value_or(0); }
};

// Numbers as the bytes of that type, which is a float or an integer of 32 or 64 bits.
std::shared_ptr<const std::vector<std::byte>> onnx_number_bytes(OnnxType type, const std::vector<double>& values);

// Appends the constant's bytes. Unsupported: a finite weight that is not finite in float16.
Result<void> append_constant(const OnnxConstant& constant, const OnnxDataFile::Append& append);

// Initializers of the constants: those of at least 1 KiB in the data file. progress: bytes done, of this call.
Result<std::vector<OnnxTensor>> write_constants(const std::vector<OnnxConstant>& constants, OnnxDataFile& data,
                                                const std::function<void(std::uint64_t)>& progress);
// Bytes that they take in the data file.
inline constexpr std::uint64_t onnx_inline_limit = 1024;

}  // namespace knapsack
