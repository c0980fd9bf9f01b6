// An element of a state, in whatever form the cache keeps it.
#pragma once

#include "kernels/kernel.h"
#include "tensor/half.h"

namespace knapsack::ref {

inline float kv_element(const StateView& state, std::int64_t slot, std::int64_t position, std::int64_t col) {
  if (state.dtype == DType::Q8_0) {  // a half for the scale, then 32 signed bytes
    const std::byte* block = state.at(slot, position, col / 32 * 32);
    return half_to_float(load_unaligned<std::uint16_t>(block)) * load_unaligned<std::int8_t>(block + 2 + col % 32);
  }
  const std::byte* at = state.channel_first ? state.in_channel(slot, position, col) : state.at(slot, position, col);
  return state.dtype == DType::F32 ? *reinterpret_cast<const float*>(at)
                                   : half_to_float(*reinterpret_cast<const std::uint16_t*>(at));
}

}  // namespace knapsack::ref
