// The largest a config may ask for: far above any model known, low enough that no product of them wraps and no
// table made from a config alone is large.
#pragma once

#include <cstdint>

namespace knapsack::limits {

inline constexpr std::int64_t hidden = std::int64_t{1} << 20;
inline constexpr std::int64_t layers = 4096;
inline constexpr std::int64_t heads = 8192;
inline constexpr std::int64_t head_dim = 16384;
inline constexpr std::int64_t projection = std::int64_t{1} << 24;  // heads x head_dim
inline constexpr std::int64_t ffn = std::int64_t{1} << 24;
inline constexpr std::int64_t vocab = std::int64_t{1} << 24;
inline constexpr std::int64_t ctx = std::int64_t{1} << 30;
inline constexpr std::int64_t experts = 4096;

}  // namespace knapsack::limits
