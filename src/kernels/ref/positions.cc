#include "kernels/ref/ref.h"

namespace knapsack::ref {

void positions(const OpCall& call) {
  for (std::int64_t row = 0; row < call.out[0].rows; ++row)
    call.out[0].i32()[row] = call.rows->positions[static_cast<std::size_t>(row)];
}

}  // namespace knapsack::ref
