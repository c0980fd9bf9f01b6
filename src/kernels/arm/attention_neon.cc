// attention: paged_attention.h with NEON's vectors.
#include "kernels/paged_attention.h"

#include <cmath>

#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/math_neon.h"
#include "kernels/arm/tile_neon.h"

namespace knapsack::neon {
namespace {

// Keys lie apart by the other heads' keys, which hardware does not foresee: what this and the next tiles need is
// fetched ahead, the values of the same positions too.
KNAP_INLINE void fetch_ahead(const PageRows& rows, std::int64_t position, std::int64_t bytes) {
  for (std::int64_t r = 0; r < tile_rows; ++r)
    for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(rows.at + (position + r) * rows.stride + at);
}

template <class L, int T>
void score_tile(const PageRows& k, const PageRows& v, std::int64_t v_bytes, const float* q, std::int64_t width,
                std::int64_t begin, std::int64_t end, std::int64_t stride, float* scores) {
  for (std::int64_t p = begin; p < end; p += tile_rows) {
    fetch_ahead(k, p + 4 * tile_rows, width * L::bytes);
    fetch_ahead(v, p, v_bytes);
    F8 sum[4][T];
    multiply_tile<L, T>(k.at + p * k.stride, k.stride, q, width, width, nullptr, 0, sum);
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t)
      vst1q_f32(scores + t * stride + p, lane_sums(sum[0][t], sum[1][t], sum[2][t], sum[3][t]));
  }
}

// out[t] += sum over p of weights[t][p] * v[p], for N vectors of columns.
template <class L, int T, int N>
KNAP_INLINE void add_values(const std::byte* v, std::int64_t v_stride, std::int64_t width, const float* weights,
                            std::int64_t stride, std::int64_t begin, std::int64_t end, float* out) {
  F8 sum[T][N];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[t][n] = load8(out + t * width + 8 * n);
  for (std::int64_t p = begin; p < end; ++p) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const F8 value = L::eight(v + p * v_stride + 8 * n * L::bytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[t][n] = fused(all8(weights[t * stride + p]), value, sum[t][n]);
    }
  }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store8(out + t * width + 8 * n, sum[t][n]);
}

template <class L, int T>
void value_tile(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride, std::int64_t begin,
                std::int64_t end, float* out) {
  std::int64_t c = 0;
  for (; c + 32 <= width; c += 32)
    add_values<L, T, 4>(v.at + c * L::bytes, v.stride, width, weights, stride, begin, end, out + c);
  for (; c < width; c += 8)
    add_values<L, T, 1>(v.at + c * L::bytes, v.stride, width, weights, stride, begin, end, out + c);
}

template <class L>
struct Tiles {
  static constexpr std::array<ScoreFn, tile_vectors> score = {score_tile<L, 1>, score_tile<L, 2>, score_tile<L, 3>};
  static constexpr std::array<ValueFn, tile_vectors> value = {value_tile<L, 1>, value_tile<L, 2>, value_tile<L, 3>};
};

// count: of Q8_0 values; what the last block has beyond them is not written.
void widen_q8(const std::byte* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i < count; from += 34) {
    const F8 scale = all8(half_to_float(load_unaligned<std::uint16_t>(from)));
    for (std::int64_t j = 0; j < 32 && i < count; j += 8, i += 8) {
      const int16x8_t codes = vmovl_s8(vld1_s8(reinterpret_cast<const std::int8_t*>(from) + 2 + j));
      const F8 values{vcvtq_f32_s32(vmovl_s16(vget_low_s16(codes))), vcvtq_f32_s32(vmovl_high_s16(codes))};
      if (i + 8 <= count) {
        store8(to + i, scale * values);
      } else {
        store_first(to + i, scale * values, count - i);
      }
    }
  }
}

struct Neon {
  static constexpr std::int64_t tile_rows = knapsack::tile_rows;
  static constexpr std::int64_t tile_vectors = knapsack::tile_vectors;

  static void widen(DType dtype, const std::byte* from, std::int64_t count, float* to) {
    if (dtype == DType::F32) {
      std::copy_n(reinterpret_cast<const float*>(from), count, to);
      return;
    }
    if (dtype == DType::Q8_0) return widen_q8(from, count, to);
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) store8(to + i, load_halves(from + 2 * i));
    for (; i < count; ++i) to[i] = half_to_float(load_unaligned<std::uint16_t>(from + 2 * i));
  }

  static ScoreFn score(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? Tiles<LoadF16>::score : Tiles<LoadF32>::score)[static_cast<std::size_t>(queries - 1)];
  }
  static ValueFn value(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? Tiles<LoadF16>::value : Tiles<LoadF32>::value)[static_cast<std::size_t>(queries - 1)];
  }

  static float weigh(const Shape& s, Query& query, std::int64_t begin, std::int64_t end, float* scores) {
    // Eights at the ends of the range: what is not in it weighs nothing.
    const std::int64_t first = begin / 8 * 8;
    const std::int64_t last = pad(end, 8);
    std::fill(scores + first, scores + begin, lowest);
    std::fill(scores + end, scores + last, lowest);
    if (s.softcap > 0) {
      for (std::int64_t p = begin; p < end; ++p) scores[p] = s.softcap * std::tanh(scores[p] * s.scale / s.softcap);
    }
    const F8 scale = all8(s.softcap > 0 ? 1.0F : s.scale);
    F8 most = all8(lowest);
    for (std::int64_t p = first; p < last; p += 8) {
      const F8 score = load8(scores + p) * scale;
      store8(scores + p, score);
      most = max8(most, score);
    }
    const float before = query.highest;
    query.highest = std::max(before, std::max(vmaxvq_f32(most.low), vmaxvq_f32(most.high)));
    const F8 highest = all8(query.highest);
    F8 sum = all8(0);
    for (std::int64_t p = first; p < last; p += 8) {
      const F8 weight = exp8(load8(scores + p) - highest);
      store8(scores + p, weight);
      sum = sum + weight;
    }
    std::fill(scores + first, scores + begin, 0.0F);
    std::fill(scores + end, scores + last, 0.0F);
    const float factor = before == query.highest ? 1.0F : vgetq_lane_f32(exp8(all8(before - query.highest)).low, 0);
    query.sum = query.sum * factor + lane_sum(sum);
    return factor;
  }

  static void multiply_all(float* x, std::int64_t width, float factor) {
    const F8 f = all8(factor);
    for (std::int64_t i = 0; i < width; i += 8) store8(x + i, load8(x + i) * f);
  }
};

}  // namespace

std::size_t attention_scratch(const OpCall& shape, std::int64_t, int threads) {
  return paged_attention_scratch(shape, threads);
}

void attention(const OpCall& call) { paged_attention<Neon>(call); }

}  // namespace knapsack::neon
