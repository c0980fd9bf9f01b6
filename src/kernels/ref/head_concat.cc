#include "kernels/ref/ref.h"

namespace knapsack::ref {

void head_concat(const OpCall& call) {
  const std::int64_t heads = call.attrs->i(Attr::heads);
  const std::int64_t a_cols = call.attrs->i(Attr::a_cols);
  const std::int64_t b_cols = call.attrs->i(Attr::b_cols);
  const std::int64_t b_stride = call.attrs->i(Attr::b_stride);
  const std::int64_t b_offset = call.attrs->i(Attr::b_offset);
  for_rows(call, call.out[0].rows * heads, [&](std::int64_t head, int) {
    const float* a = call.in[0].f32() + head * a_cols;
    const float* b = call.in[1].f32() + head * b_stride + b_offset;
    float* y = call.out[0].f32() + head * (a_cols + b_cols);
    std::copy_n(a, a_cols, y);
    std::copy_n(b, b_cols, y + a_cols);
  });
}

}  // namespace knapsack::ref
