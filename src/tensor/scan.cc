#include "tensor/scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

// Blocks looked at in one go: few enough for a stack buffer of floats, enough for the compiler to vectorize over.
constexpr std::int64_t chunk_elements = 4096;

template <class T, T exponent>
bool any_not_finite(const std::byte* data, std::int64_t count) {
  std::int64_t bad = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T bits = load_unaligned<T>(data + i * static_cast<std::int64_t>(sizeof(T)));
    bad += (bits & exponent) == exponent ? 1 : 0;
  }
  return bad != 0;
}

bool half_not_finite(const std::byte* data) { return any_not_finite<std::uint16_t, 0x7c00>(data, 1); }

// Where the half-precision scales lie in a block; what they multiply is too small to overflow a float.
struct Scales {
  int first, second;  // byte offsets; second -1: only one
};
std::optional<Scales> scales_of(DType dtype) {
  switch (dtype) {
    case DType::Q4_0:
    case DType::Q5_0:
    case DType::Q8_0:
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::IQ3_XXS:
    case DType::IQ3_S:
    case DType::IQ1_S:
    case DType::IQ4_NL:
    case DType::IQ4_XS:
    case DType::G4:
    case DType::G8:
      return Scales{0, -1};
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K:
      return Scales{0, 2};
    case DType::Q2_K:
      return Scales{80, 82};
    case DType::Q3_K:
      return Scales{108, -1};
    case DType::Q6_K:
      return Scales{208, -1};
    case DType::TQ1_0:
      return Scales{52, -1};
    case DType::TQ2_0:
      return Scales{64, -1};
    default:
      return std::nullopt;
  }
}

// False only where every value of these blocks is finite for certain.
bool suspect(DType dtype, const std::byte* data, std::int64_t blocks) {
  const std::int64_t bytes = format(dtype).block_bytes;
  switch (dtype) {
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
      return false;
    case DType::F32:
      return any_not_finite<std::uint32_t, 0x7f800000U>(data, blocks);
    case DType::F16:
      return any_not_finite<std::uint16_t, 0x7c00>(data, blocks);
    case DType::BF16:
      return any_not_finite<std::uint16_t, 0x7f80>(data, blocks);
    case DType::F8_E4M3:
      return any_not_finite<std::uint8_t, 0x7f>(data, blocks);
    case DType::MXFP4: {
      // 2^(e-128) times 12 leaves the floats from e = 253 on.
      bool large = false;
      for (std::int64_t i = 0; i < blocks; ++i) large |= data[i * bytes] >= std::byte{253};
      return large;
    }
    default:
      break;
  }
  const auto scales = scales_of(dtype);
  if (!scales) return true;
  bool bad = false;
  for (std::int64_t i = 0; i < blocks; ++i) {
    bad |= half_not_finite(data + i * bytes + scales->first);
    if (scales->second >= 0) bad |= half_not_finite(data + i * bytes + scales->second);
  }
  return bad;
}

}  // namespace

std::optional<Fault> scan(DType dtype, std::span<const std::byte> data) {
  const FormatInfo& info = format(dtype);
  CHECK(data.size() % static_cast<std::size_t>(info.block_bytes) == 0);
  const std::int64_t blocks = static_cast<std::int64_t>(data.size()) / info.block_bytes;
  const std::int64_t chunk = chunk_elements / info.block;
  std::array<float, chunk_elements> values{};
  Fault fault;
  for (std::int64_t at = 0; at < blocks; at += chunk) {
    const std::int64_t count = std::min(chunk, blocks - at);
    const std::byte* bytes = data.data() + at * info.block_bytes;
    if (!suspect(dtype, bytes, count)) continue;
    info.decode(bytes, values.data(), count);
    for (std::int64_t i = 0; i < count * info.block; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      if (std::isfinite(value)) continue;
      if (fault.count++ == 0) {
        fault.index = at * info.block + i;
        fault.value = value;
      }
    }
  }
  if (fault.count == 0) return std::nullopt;
  return fault;
}

}  // namespace knapsack
