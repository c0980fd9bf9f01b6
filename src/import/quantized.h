// Checkpoints quantized in the Hugging Face world, taken apart exactly: block-scaled FP8, GPTQ, AWQ. Only the bits:
// which tensors belong together is checkpoint_hf.cc's matter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/checkpoint.h"
#include "import/fields.h"

namespace knapsack {

enum class QuantMethod : std::uint8_t { none, fp8, gptq, awq };

struct QuantConfig {
  QuantMethod method = QuantMethod::none;
  std::int64_t bits = 0;
  std::int64_t group = 0;      // -1: one group over all inputs
  bool zero_plus_one = false;  // GPTQ v1: the stored zero point is one less than meant
  bool act_order = false;
  std::int64_t block_rows = 0, block_cols = 0;  // FP8
  [[nodiscard]] std::string text() const;       // "GPTQ 4-bit g128"; empty for none
};

// config.json's quantization_config, or quantize_config.json's object. Kinds and widths not read here are
// `unsupported`, by name and number.
Result<QuantConfig> quant_config(const Fields& config);

// weight [N, K] F8_E4M3, scale [ceil(N/block_rows), ceil(K/block_cols)] F32 or BF16 -> F8_B32, or F32 where rows are
// not whole blocks of 32.
LoadedWeight read_fp8(const LogicalTensor& tensor, const QuantConfig& config);

// parts: qweight, qzeros, scales, g_idx (null when absent). -> G4 or G8 where that is exact, else F32. With act-order
// the columns are sorted by group and `order` says how, unless keep_order.
Result<LoadedWeight> read_gptq(const LogicalTensor& tensor, const QuantConfig& config, const std::string& origin,
                               bool keep_order);
// A matrix with its packing undone: value = scale * (code - zero), scale and zero of the row and the column's group.
struct GroupedCodes {
  std::int64_t rows = 0, cols = 0, groups = 0;
  std::vector<std::uint8_t> codes;   // [rows, cols]
  std::vector<float> scales;         // [groups, rows]
  std::vector<std::uint16_t> zeros;  // [groups, rows]
  std::vector<std::int32_t> group;   // of each column
};
// bits: 4 or 8. G4 or G8 where that is exact, else F32.
std::shared_ptr<const Weight> weight_of_codes(const GroupedCodes& codes, std::int64_t bits, const std::string& name);

// parts: qweight, qzeros, scales.
LoadedWeight read_awq(const LogicalTensor& tensor, const QuantConfig& config);

}  // namespace knapsack
