// The inner loops of attention, which attention_avx2.cc runs for its own set and for wider ones. Whatever the width, a
// score is summed in eight lanes as matmul.h says, and an output column over positions in order: so the bits are the
// same.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace knapsack {

// Keys or values of one kv head in a page: in the cache itself, or widened.
struct PageRows {
  const std::byte* at;
  std::int64_t stride;  // bytes
  DType dtype;
};

// scores[t * stride + p] = the product of query t with key p, for p from begin to end, in tiles of tile_rows keys.
// `width`: columns, a multiple of 8. v_bytes of each of these positions' values are fetched ahead.
using ScoreFn = void (*)(const PageRows& k, const PageRows& v, std::int64_t v_bytes, const float* q, std::int64_t width,
                         std::int64_t begin, std::int64_t end, std::int64_t stride, float* scores);
// out[t * width + c] += weights[t * stride + p] * value p's column c, for p from begin to end. Rows of `next`, the keys
// of the page after it, are fetched on the way.
using ValueFn = void (*)(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride,
                         std::int64_t begin, std::int64_t end, float* out, const PageRows& next);

struct AttentionTiles {
  // By the number of queries less one; all are as long.
  std::span<const ScoreFn> score_f32{}, score_f16{};
  std::span<const ValueFn> value_f32{}, value_f16{};
  [[nodiscard]] std::int64_t queries() const { return static_cast<std::int64_t>(score_f32.size()); }
  [[nodiscard]] ScoreFn score(DType dtype, std::int64_t queries) const {
    return (dtype == DType::F16 ? score_f16 : score_f32)[static_cast<std::size_t>(queries - 1)];
  }
  [[nodiscard]] ValueFn value(DType dtype, std::int64_t queries) const {
    return (dtype == DType::F16 ? value_f16 : value_f32)[static_cast<std::size_t>(queries - 1)];
  }
};

namespace avx2 {
// The op attention, by these.
void attention_by(const OpCall& call, const AttentionTiles& tiles);
}  // namespace avx2
namespace avx512 {
void attention(const OpCall& call);  // scratch as avx2's
}  // namespace avx512

}  // namespace knapsack
