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
    std::byte* to = state.row(call.rows->slots[r], call.rows->positions[r]);
    if (state.dtype == DType::F32) {
      std::copy_n(x, cols, reinterpret_cast<float*>(to) + col);
    } else {
      auto* half = reinterpret_cast<std::uint16_t*>(to) + col;
      for (std::int64_t i = 0; i < cols; ++i) half[i] = float_to_half(x[i]);
    }
  });
}

}  // namespace knapsack::ref
