#include <algorithm>

#include "kernels/ref/ref.h"
#include "tensor/half.h"

namespace knapsack::ref {

void kv_write(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  const std::int64_t col = call.attrs->i(Attr::col);
  const StateView& state = *call.in[1].state;
  for_rows(call, call.in[0].rows, [&](std::int64_t row, int) {
    const auto r = static_cast<std::size_t>(row);
    const float* x = call.in[0].f32() + row * cols;
    if (state.channel_first) {
      for (std::int64_t i = 0; i < cols; ++i) {
        std::byte* to = state.in_channel(call.rows->slots[r], call.rows->positions[r], col + i);
        if (state.dtype == DType::F32) {
          *reinterpret_cast<float*>(to) = x[i];
        } else {
          *reinterpret_cast<std::uint16_t*>(to) = float_to_half(x[i]);
        }
      }
      return;
    }
    for (std::int64_t i = 0, some = 0; i < cols; i += some) {
      some = std::min(cols - i, state.head_cols - (col + i) % state.head_cols);
      std::byte* to = state.at(call.rows->slots[r], call.rows->positions[r], col + i);
      if (state.dtype == DType::Q8_0) {
        const FormatInfo& f = format(state.dtype);
        f.encode(x + i, to, some / f.block);
      } else if (state.dtype == DType::F32) {
        std::copy_n(x + i, some, reinterpret_cast<float*>(to));
      } else {
        auto* half = reinterpret_cast<std::uint16_t*>(to);
        for (std::int64_t j = 0; j < some; ++j) half[j] = float_to_half(x[i + j]);
      }
    }
  });
}

}  // namespace knapsack::ref
