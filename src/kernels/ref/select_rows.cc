#include "kernels/ref/ref.h"

namespace knapsack::ref {

void select_rows(const OpCall& call) {
  const std::int64_t cols = call.in[0].cols;
  for (std::int64_t row = 0; row < call.out[0].rows; ++row)
    std::copy_n(call.in[0].f32() + call.rows->selected[static_cast<std::size_t>(row)] * cols, cols,
                call.out[0].f32() + row * cols);
}

}  // namespace knapsack::ref
