// Storage formats of tensors: their names, block shapes and scalar decoders (formats.inc is the list).
// Not for arithmetic on them: kernels/ does that, and is compared with what decode() defines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace knapsack {

enum class DType : std::uint8_t {
#define KNAP_FORMAT(id, ggml, block, bytes) id,
#include "tensor/formats.inc"
#undef KNAP_FORMAT
};

// Levels give a scale and a min for each 16 columns; formats with larger groups repeat them.
inline constexpr std::int64_t level_group = 16;

// The integers of a format: value = scale * code + min (up to the rounding of that sum).
struct Levels {
  std::uint8_t* codes;  // [blocks * block]; of 8 bits: a signed byte
  float* scales;        // [blocks * block / level_group]
  float* mins;          // the same
};

struct FormatInfo {
  DType dtype;
  std::string_view name;  // "Q4_K"
  int ggml_type;          // number in GGUF files, or -1
  std::int64_t block;     // elements a block; rows are whole blocks
  std::int64_t block_bytes;
  // The scalar truth: `blocks` whole blocks -> blocks*block floats. No alignment is assumed. Never null.
  void (*decode)(const std::byte* data, float* out, std::int64_t blocks);
  // Round to nearest, or null where this version does not write the format.
  void (*encode)(const float* in, std::byte* data, std::int64_t blocks);
  // The integers, or null where the format is no such thing (levels.inc lists those that are).
  void (*levels)(const std::byte* data, const Levels& out, std::int64_t blocks);
  int level_bits;    // 4, 5, 6: codes in [0, 2^bits); 8: codes in [-128, 127]; 0: no levels
  int levels_group;  // columns of one scale: 16 or 32
  int levels_zero;   // min = -zero * scale; -1: mins of their own
};

std::span<const FormatInfo> all_formats();
const FormatInfo& format(DType dtype);
std::optional<DType> dtype_from_ggml(std::uint32_t type);
std::optional<DType> dtype_from_name(std::string_view name);

inline std::string_view name(DType dtype) { return format(dtype).name; }
// Bytes of a row of `cols` elements; cols is a multiple of the block.
inline std::int64_t row_bytes(DType dtype, std::int64_t cols) {
  const FormatInfo& f = format(dtype);
  return cols / f.block * f.block_bytes;
}

}  // namespace knapsack
