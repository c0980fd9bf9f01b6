#include <array>
#include <string>

#include "tensor/dtype.h"
#include "tensor/formats/formats.h"

namespace knapsack {
namespace {

using Encode = void (*)(const float*, std::byte*, std::int64_t);

constexpr Encode encoder(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return formats::encode_F32;
    case DType::F16:
      return formats::encode_F16;
    case DType::BF16:
      return formats::encode_BF16;
    case DType::Q4_0:
      return formats::encode_Q4_0;
    case DType::Q4_1:
      return formats::encode_Q4_1;
    case DType::Q8_0:
      return formats::encode_Q8_0;
    default:
      return nullptr;
  }
}

struct LevelsInfo {
  void (*read)(const std::byte*, const Levels&, std::int64_t) = nullptr;
  int bits = 0, group = 0, zero = 0;
};

constexpr LevelsInfo levels_of(DType dtype) {
  switch (dtype) {
#define KNAP_LEVELS(id, bits, group, zero) \
  case DType::id:                          \
    return {formats::levels_##id, bits, group, zero};
#include "tensor/levels.inc"
#undef KNAP_LEVELS
    default:
      return {};
  }
}

constexpr auto table = std::to_array<FormatInfo>({
#define KNAP_FORMAT(id, ggml, block, bytes) \
  {DType::id,                               \
   #id,                                     \
   ggml,                                    \
   block,                                   \
   bytes,                                   \
   formats::decode_##id,                    \
   encoder(DType::id),                      \
   levels_of(DType::id).read,               \
   levels_of(DType::id).bits,               \
   levels_of(DType::id).group,              \
   levels_of(DType::id).zero},
#include "tensor/formats.inc"
#undef KNAP_FORMAT
});

}  // namespace

std::span<const FormatInfo> all_formats() { return table; }

const FormatInfo& format(DType dtype) { return table[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_ggml(std::uint32_t type) {
  for (const FormatInfo& f : table)
    if (f.ggml_type >= 0 && static_cast<std::uint32_t>(f.ggml_type) == type) return f.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const FormatInfo& f : table)
    if (f.name == name) return f.dtype;
  return std::nullopt;
}

}  // namespace knapsack
