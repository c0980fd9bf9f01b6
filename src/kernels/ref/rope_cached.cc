#include "kernels/ref/rotate.h"

namespace knapsack::ref {

void rope_cached(const OpCall& call) {
  const std::int64_t half = call.attrs->i(Attr::rotary) / 2;
  const float* cos = call.in[1].weight->f32();
  const float* sin = call.in[2].weight->f32();
  rotate_heads(call, [=](std::int64_t position, std::int64_t i) {
    return std::pair{cos[position * half + i], sin[position * half + i]};
  });
}

}  // namespace knapsack::ref
