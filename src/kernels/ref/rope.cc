#include <cmath>

#include "kernels/ref/rotate.h"

namespace knapsack::ref {

// The angle is a float32 product and its cosine a float32 cosine, as in transformers: at large positions a more
// exact angle would be a different model.
void rope(const OpCall& call) {
  const float scale = call.attrs->f(Attr::scale, 1);
  const float* inv_freq = call.in[1].weight->f32();
  rotate_heads(call, [=](std::int64_t position, std::int64_t i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    return std::pair{std::cos(angle) * scale, std::sin(angle) * scale};
  });
}

}  // namespace knapsack::ref
