#include <cmath>
#include <limits>

#include "kernels/ref/kv_element.h"
#include "kernels/ref/ref.h"

namespace knapsack::ref {
namespace {

struct HeadShape {
  std::int64_t head_dim, v_dim, window;
  float scale, softcap;
};

// One query head of one row. scores: [positions seen]. Softmax over the positions in order, the maximum subtracted.
void attend(const HeadShape& shape, const float* q, const StateView& k, std::int64_t k_col, const StateView& v,
            std::int64_t v_col, std::int64_t slot, std::int64_t position, float* scores, float* out) {
  const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, position - shape.window + 1) : 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (std::int64_t p = first; p <= position; ++p) {
    float dot = 0;
    for (std::int64_t i = 0; i < shape.head_dim; ++i) dot += q[i] * kv_element(k, slot, p, k_col + i);
    float score = dot * shape.scale;
    if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
    scores[p - first] = score;
    highest = std::max(highest, score);
  }
  float sum = 0;
  for (std::int64_t p = first; p <= position; ++p) {
    float& score = scores[p - first];
    score = std::exp(score - highest);
    sum += score;
  }
  std::fill_n(out, shape.v_dim, 0.0F);
  for (std::int64_t p = first; p <= position; ++p) {
    const float weight = scores[p - first] / sum;
    for (std::int64_t i = 0; i < shape.v_dim; ++i) out[i] += weight * kv_element(v, slot, p, v_col + i);
  }
}

}  // namespace

std::size_t attention_scratch(const OpCall&, std::int64_t ctx, int threads) {
  return static_cast<std::size_t>(ctx) * static_cast<std::size_t>(threads) * sizeof(float);
}

void attention(const OpCall& call) {
  const std::int64_t heads = call.attrs->i(Attr::heads);
  const std::int64_t group = heads / call.attrs->i(Attr::kv_heads);
  const HeadShape shape{.head_dim = call.attrs->i(Attr::head_dim),
                        .v_dim = call.attrs->i(Attr::v_dim, call.attrs->i(Attr::head_dim)),
                        .window = call.attrs->i(Attr::window),
                        .scale = call.attrs->f(Attr::scale),
                        .softcap = call.attrs->f(Attr::softcap)};
  const std::int64_t v_stride = call.attrs->i(Attr::v_stride, shape.v_dim);
  auto* scratch = reinterpret_cast<float*>(call.scratch.data());
  const std::int64_t scratch_floats =
      static_cast<std::int64_t>(call.scratch.size() / sizeof(float)) / call.pool->size();
  for_rows(call, call.in[0].rows * heads, [&](std::int64_t index, int thread) {
    const auto row = static_cast<std::size_t>(index / heads);
    const std::int64_t kv_head = index % heads / group;
    attend(shape, call.in[0].f32() + index * shape.head_dim, *call.in[1].state, kv_head * shape.head_dim,
           *call.in[2].state, kv_head * v_stride, call.rows->slots[row], call.rows->positions[row],
           scratch + thread * scratch_floats, call.out[0].f32() + index * shape.v_dim);
  });
}

}  // namespace knapsack::ref
