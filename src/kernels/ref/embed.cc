#include "kernels/ref/ref.h"

namespace knapsack::ref {

void embed(const OpCall& call) {
  const std::int32_t* ids = call.in[0].i32();
  const Weight& table = *call.in[1].weight;
  const FormatInfo& f = format(table.dtype);
  const float scale = call.attrs->f(Attr::scale, 1);
  const std::int64_t cols = call.out[0].cols;
  for_rows(call, call.out[0].rows, [&](std::int64_t row, int) {
    float* out = call.out[0].f32() + row * cols;
    f.decode(table.slab(0) + ids[row] * table.row_size(), out, cols / f.block);
    for (std::int64_t i = 0; i < cols; ++i) out[i] *= scale;
  });
}

}  // namespace knapsack::ref
