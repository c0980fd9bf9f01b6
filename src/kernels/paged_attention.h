// attention: page by page of the KV cache, with a running maximum and sum for each query (online softmax). A unit of
// work is some rows x some query heads that share one kv head, so that a page is read and widened once for all of them.
// What a query adds up, and in which order, depends on its own range of positions and on the page borders only: neither
// on the other queries of the unit nor on the threads. A score is summed in the eight lanes of matmul.h, an output
// column over positions in order.
//
// Written over F8, eight floats: the includer brings it with its functions (load8, store8, all8, fused, max8, lane_sum,
// lane_max, store_first, signed_bytes, all_half, and what eight_math.h is made of), LoadF32 and LoadF16, and
// multiply_tile and store_lane_sums of its tiles. Beyond that an instruction set says what it does in its own way by a
// class V, for which EightLanes is the model:
//   tile_vectors                    how many queries a tile takes at most
//   score(dtype, n), value(dtype, n)   the tiles for n queries: ScoreFn, ValueFn
// Widths are multiples of 8, memory is 64-byte aligned. Included by attention_*.cc only; everything is in an unnamed
// namespace, since each of these files may be compiled for another instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/eight_math.h"
#include "kernels/kernel.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): said above

inline constexpr float lowest = -std::numeric_limits<float>::infinity();

// Queries of a unit: enough to pay for widening a page, few enough that their sums stay in L2.
inline constexpr std::int64_t most_queries = 48;

std::int64_t pad(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

struct Shape {
  std::int64_t heads, kv_heads, head_dim, v_dim, v_stride, window;
  float scale, softcap;
  std::int64_t k_width, v_width;  // padded to a multiple of 8

  explicit Shape(const Attrs& a)
      : heads(a.i(Attr::heads)),
        kv_heads(a.i(Attr::kv_heads)),
        head_dim(a.i(Attr::head_dim)),
        v_dim(a.i(Attr::v_dim, head_dim)),
        v_stride(a.i(Attr::v_stride, v_dim)),
        window(a.i(Attr::window)),
        scale(a.f(Attr::scale)),
        softcap(a.f(Attr::softcap)),
        k_width(pad(head_dim, 8)),
        v_width(pad(v_dim, 8)) {}
  [[nodiscard]] std::int64_t group() const { return heads / kv_heads; }
};

// How the work is cut: each kv head's group of query heads in parts of `heads`, rows in parts of `rows`.
struct Units {
  std::int64_t heads, head_parts, rows, row_parts;
};

Units cut(const Shape& s, std::int64_t rows, int threads) {
  Units u{};
  u.heads = std::min(s.group(), most_queries);
  u.rows = std::max<std::int64_t>(1, most_queries / u.heads);
  const auto count = [&] {
    u.head_parts = (s.group() + u.heads - 1) / u.heads;
    u.row_parts = (rows + u.rows - 1) / u.rows;
    return s.kv_heads * u.head_parts * u.row_parts;
  };
  // Four units a thread, so that none waits long for the last. Rows are split for that; heads, which share their keys,
  // only where some thread would have nothing to do.
  while (rows > 1 && u.rows > 1 && count() < std::int64_t{4} * threads) u.rows = (std::min(u.rows, rows) + 1) / 2;
  while (u.heads > 1 && count() < threads) u.heads = (u.heads + 1) / 2;
  count();
  return u;
}

struct Query {
  std::int64_t first, end;  // positions it sees
  float highest, sum;
};

// A thread's memory, all parts 64-byte aligned.
struct Memory {
  float *q, *out, *scores, *factors, *k, *v;
  Query* queries;
};

std::int64_t memory_floats(const Shape& s, std::int64_t page) {
  const std::int64_t per_query = s.k_width + s.v_width + pad(page, 8) + 1 + std::int64_t{sizeof(Query) / sizeof(float)};
  return pad(most_queries * per_query + page * (s.k_width + s.v_width), 16) + 7 * 16;
}

Memory lay_out(const Shape& s, std::int64_t page, float* at) {
  const auto take = [&](std::int64_t floats) {
    float* begin = at;
    at += pad(floats, 16);
    return begin;
  };
  Memory m{};
  m.q = take(most_queries * s.k_width);
  m.out = take(most_queries * s.v_width);
  m.scores = take(most_queries * pad(page, 8));
  m.factors = take(most_queries);
  m.k = take(page * s.k_width);
  m.v = take(page * s.v_width);
  m.queries = reinterpret_cast<Query*>(take(most_queries * std::int64_t{sizeof(Query) / sizeof(float)}));
  return m;
}

// Keys or values of one kv head in a page: in the cache itself, or widened.
struct PageRows {
  const std::byte* at;
  std::int64_t stride;  // bytes
  DType dtype;
};

// scores[t * stride + p] = q[t] . k[p] for positions [begin, end) of the page; begin is a multiple of tile_rows, and
// positions up to the next one from `end` may be written. Where v_bytes is not 0, keys and values are read from the
// cache itself: that many bytes of each of these positions' values are fetched ahead.
using ScoreFn = void (*)(const PageRows& k, const PageRows& v, std::int64_t v_bytes, const float* q, std::int64_t width,
                         std::int64_t begin, std::int64_t end, std::int64_t stride, float* scores);
// out[t * width + c] += weights[t * stride + p] * value p's column c, for p from begin to end. Rows of `next`, the keys
// of the page after it, are fetched on the way.
using ValueFn = void (*)(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride,
                         std::int64_t begin, std::int64_t end, float* out, const PageRows& next);

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
    if (v_bytes > 0) {
      fetch_ahead(k, p + 4 * tile_rows, width * L::bytes);
      fetch_ahead(v, p, v_bytes);
    }
    F8 sum[4][T];
    multiply_tile<L, T, false>(k.at + p * k.stride, k.stride, q, width, width, nullptr, 0, sum);
    store_lane_sums(sum, stride, scores + p);
  }
}

// N vectors of columns. A cache line of each row of `next` is fetched on the way.
template <class L, int T, int N>
KNAP_INLINE void add_values(const std::byte* v, std::int64_t v_stride, std::int64_t width, const float* weights,
                            std::int64_t stride, std::int64_t begin, std::int64_t end, float* out,
                            const std::byte* next, std::int64_t next_stride) {
  F8 sum[T][N];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[t][n] = load8(out + t * width + 8 * n);
  for (std::int64_t p = begin; p < end; ++p) {
    __builtin_prefetch(next + p * next_stride);
    F8 weight[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) weight[t] = all8(weights[t * stride + p]);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const F8 value = L::eight(v + p * v_stride + 8 * n * L::bytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[t][n] = fused(weight[t], value, sum[t][n]);
    }
  }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) store8(out + t * width + 8 * n, sum[t][n]);
}

template <class L, int T>
void value_tile(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride, std::int64_t begin,
                std::int64_t end, float* out, const PageRows& next) {
  std::int64_t c = 0;
  for (; c + 32 <= width; c += 32)
    add_values<L, T, 4>(v.at + c * L::bytes, v.stride, width, weights, stride, begin, end, out + c, next.at + 2 * c,
                        next.stride);
  for (; c < width; c += 8)
    add_values<L, T, 1>(v.at + c * L::bytes, v.stride, width, weights, stride, begin, end, out + c, next.at,
                        next.stride);
}

template <class L>
constexpr auto score_tiles = std::to_array<ScoreFn>({score_tile<L, 1>, score_tile<L, 2>, score_tile<L, 3>});
template <class L>
constexpr auto value_tiles = std::to_array<ValueFn>({value_tile<L, 1>, value_tile<L, 2>, value_tile<L, 3>});

struct EightLanes {
  static constexpr std::int64_t tile_vectors = 3;
  static ScoreFn score(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? score_tiles<LoadF16> : score_tiles<LoadF32>)[static_cast<std::size_t>(queries - 1)];
  }
  static ValueFn value(DType dtype, std::int64_t queries) {
    return (dtype == DType::F16 ? value_tiles<LoadF16> : value_tiles<LoadF32>)[static_cast<std::size_t>(queries - 1)];
  }
};

// count: of Q8_0 values; what the last block has beyond them is not written.
void widen_q8(const std::byte* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i < count; from += 34) {
    const F8 scale = all_half(from);
    for (std::int64_t j = 0; j < 32 && i < count; j += 8, i += 8) {
      const F8 values = scale * signed_bytes(from + 2 + j);
      if (i + 8 <= count) {
        store8(to + i, values);
      } else {
        store_first(to + i, values, count - i);
      }
    }
  }
}

// `count` columns of a row of the cache as floats, padded with zeros to a multiple of 8.
void widen(DType dtype, const std::byte* from, std::int64_t count, float* to) {
  if (dtype == DType::F32) {
    std::copy_n(reinterpret_cast<const float*>(from), count, to);
  } else if (dtype == DType::Q8_0) {
    widen_q8(from, count, to);
  } else {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) store8(to + i, load_halves(from + 2 * i));
    for (; i < count; ++i) to[i] = half_to_float(load_unaligned<std::uint16_t>(from + 2 * i));
  }
  std::fill_n(to + count, pad(count, 8) - count, 0.0F);
}

// Rows [begin, end) of a page, `count` columns from `page` on, as they will be read: from the cache itself (`direct`:
// they are read once, by one tile of queries), or widened to float once, into `memory`. Q8_0 and rows of a width that
// vectors do not divide are always copied.
PageRows page_rows(const StateView& state, const std::byte* page, std::int64_t begin, std::int64_t end,
                   std::int64_t count, bool direct, float* memory) {
  const std::int64_t stride = state.row_stride();
  if (state.dtype != DType::Q8_0 && count % 8 == 0 && (direct || state.dtype == DType::F32))
    return {.at = page, .stride = stride, .dtype = state.dtype};
  const std::int64_t width = pad(count, 8);
  for (std::int64_t r = begin; r < end; ++r) widen(state.dtype, page + r * stride, count, memory + r * width);
  return {.at = reinterpret_cast<const std::byte*>(memory),
          .stride = width * std::int64_t{sizeof(float)},
          .dtype = DType::F32};
}

// The positions of a page, which begins at position `begin`, that a query sees.
struct Range {
  std::int64_t begin, end;
  Range(const Query& query, std::int64_t page_begin, std::int64_t page)
      : begin(std::max<std::int64_t>(0, query.first - page_begin)), end(std::min(page, query.end - page_begin)) {}
  [[nodiscard]] bool empty() const { return begin >= end; }
  bool operator==(const Range&) const = default;
};

// Raw scores of one page become weights e^(score - highest), those of positions that a query does not see 0 as far as
// vectors reach; factors[i] is what the query's earlier sums are to be multiplied by. All queries together, step by
// step, so that none waits for the result of another's step.
void weigh(const Shape& s, const Memory& m, std::int64_t count, std::int64_t page_begin, std::int64_t page) {
  const std::int64_t stride = pad(page, 8);
  const F8 scale = all8(s.softcap > 0 ? 1.0F : s.scale);
  for (std::int64_t i = 0; i < count; ++i) {
    m.factors[i] = 0;
    const Range seen(m.queries[i], page_begin, page);
    if (seen.empty()) continue;
    float* scores = m.scores + i * stride;
    const std::int64_t first = seen.begin / 8 * 8;
    const std::int64_t last = pad(seen.end, 8);
    std::fill(scores + first, scores + seen.begin, lowest);
    std::fill(scores + seen.end, scores + last, lowest);
    if (s.softcap > 0)
      for (std::int64_t p = seen.begin; p < seen.end; ++p)
        scores[p] = s.softcap * std::tanh(scores[p] * s.scale / s.softcap);
    F8 most = all8(lowest);
    for (std::int64_t p = first; p < last; p += 8) most = max8(most, load8(scores + p) * scale);
    const float before = m.queries[i].highest;
    m.queries[i].highest = std::max(before, lane_max(most));
    if (before != m.queries[i].highest) m.factors[i] = before - m.queries[i].highest;
  }
  for (std::int64_t i = 0; i < count; i += 8) store8(m.factors + i, exp8(load8(m.factors + i)));
  for (std::int64_t i = 0; i < count; ++i) {
    const Range seen(m.queries[i], page_begin, page);
    if (seen.empty()) continue;
    float* scores = m.scores + i * stride;
    const F8 highest = all8(m.queries[i].highest);
    F8 sum = all8(0);
    for (std::int64_t p = seen.begin / 8 * 8; p < pad(seen.end, 8); p += 8) {
      const F8 weight = exp8(load8(scores + p) * scale - highest);
      store8(scores + p, weight);
      sum = sum + weight;
    }
    m.queries[i].sum = m.queries[i].sum * m.factors[i] + lane_sum(sum);
  }
}

void multiply_all(float* x, std::int64_t width, float factor) {
  const F8 f = all8(factor);
  for (std::int64_t i = 0; i < width; i += 8) store8(x + i, load8(x + i) * f);
}

// One page for all queries of a unit; `begin` is the page's first position. `next`: the keys of the page after it. The
// unit's queries see [from, to) of the page, all together.
template <class V>
void attend_page(const Shape& s, const Memory& m, const PageRows& keys, const PageRows& values, const PageRows& next,
                 std::int64_t count, std::int64_t begin, std::int64_t page, std::int64_t from, std::int64_t to) {
  const std::int64_t stride = pad(page, 8);
  const std::int64_t v_bytes = count <= V::tile_vectors ? s.v_width * row_bytes(values.dtype, 1) : 0;
  for (std::int64_t i = 0; i < count; i += V::tile_vectors)
    V::score(keys.dtype, std::min(V::tile_vectors, count - i))(keys, values, v_bytes, m.q + i * s.k_width, s.k_width,
                                                               from / tile_rows * tile_rows, to, stride,
                                                               m.scores + i * stride);
  weigh(s, m, count, begin, page);
  for (std::int64_t i = 0; i < count; ++i)
    if (m.factors[i] != 1.0F) multiply_all(m.out + i * s.v_width, s.v_width, m.factors[i]);
  for (std::int64_t i = 0; i < count;) {
    const Range seen(m.queries[i], begin, page);
    std::int64_t same = 1;
    while (same < V::tile_vectors && i + same < count && Range(m.queries[i + same], begin, page) == seen) ++same;
    if (!seen.empty())
      V::value(values.dtype, same)(values, s.v_width, m.scores + i * stride, stride, seen.begin, seen.end,
                                   m.out + i * s.v_width, next);
    i += same;
  }
}

// Rows [row, row_end), all of one slot, with query heads [head, head_end) of kv head `kv`.
template <class V>
void attend(const OpCall& call, const Shape& s, const Memory& m, std::int64_t row, std::int64_t row_end,
            std::int64_t head, std::int64_t head_end, std::int64_t kv) {
  const StateView& keys = *call.in[1].state;
  const StateView& values = *call.in[2].state;
  const std::int64_t page = keys.page_tokens;
  const std::int64_t slot = call.rows->slots[static_cast<std::size_t>(row)];
  std::int64_t count = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (std::int64_t r = row; r < row_end; ++r) {
    const std::int64_t position = call.rows->positions[static_cast<std::size_t>(r)];
    const std::int64_t sees = s.window > 0 ? std::max<std::int64_t>(0, position - s.window + 1) : 0;
    first = std::min(first, sees);
    end = std::max(end, position + 1);
    for (std::int64_t h = head; h < head_end; ++h, ++count) {
      float* q = m.q + count * s.k_width;
      std::copy_n(call.in[0].f32() + (r * s.heads + h) * s.head_dim, s.head_dim, q);
      std::fill_n(q + s.head_dim, s.k_width - s.head_dim, 0.0F);
      std::fill_n(m.out + count * s.v_width, s.v_width, 0.0F);
      m.queries[count] = {.first = sees, .end = position + 1, .highest = lowest, .sum = 0};
    }
  }
  const bool direct = count <= V::tile_vectors;
  for (std::int64_t begin = first / page * page; begin < end; begin += page) {
    const std::int64_t from = std::max<std::int64_t>(0, first - begin);
    const std::int64_t to = std::min(page, end - begin);
    const PageRows v = page_rows(values, values.at(slot, begin, kv * s.v_stride), from, to, s.v_dim, direct, m.v);
    // Where there is no page after it, this one is fetched again, which costs nothing.
    const PageRows next{.at = keys.at(slot, begin + page < end ? begin + page : begin, kv * s.head_dim),
                        .stride = keys.row_stride(),
                        .dtype = keys.dtype};
    const PageRows k = page_rows(keys, keys.at(slot, begin, kv * s.head_dim), from, to, s.head_dim, direct, m.k);
    attend_page<V>(s, m, k, v, next, count, begin, page, from, to);
  }
  count = 0;
  for (std::int64_t r = row; r < row_end; ++r)
    for (std::int64_t h = head; h < head_end; ++h, ++count) {
      const float* sums = m.out + count * s.v_width;
      float* y = call.out[0].f32() + (r * s.heads + h) * s.v_dim;
      for (std::int64_t i = 0; i < s.v_dim; ++i) y[i] = sums[i] / m.queries[count].sum;
    }
}

inline std::size_t paged_attention_scratch(const OpCall& shape, int threads) {
  const std::int64_t page = shape.in[1].state->page_tokens;
  return static_cast<std::size_t>(memory_floats(Shape(*shape.attrs), page) * threads) * sizeof(float);
}

template <class V>
void paged_attention(const OpCall& call) {
  const Shape s(*call.attrs);
  const std::int64_t page = call.in[1].state->page_tokens;
  CHECK(page % tile_rows == 0 && call.in[2].state->page_tokens == page);
  const std::int64_t rows = call.in[0].rows;
  const Units u = cut(s, rows, call.pool->size());
  const std::int64_t floats = memory_floats(s, page);
  std::int64_t products = 0;
  for (std::int64_t r = 0; r < rows; ++r) products += call.rows->positions[static_cast<std::size_t>(r)] + 1;
  products *= s.heads * (s.head_dim + s.v_dim);
  const std::int64_t units = s.kv_heads * u.head_parts * u.row_parts;
  const std::int64_t grain = std::max<std::int64_t>(1, units * 32768 / products);  // 32768 products: about 10 us
  call.pool->parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const Memory m = lay_out(s, page, reinterpret_cast<float*>(call.scratch.data()) + thread * floats);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t kv = unit / u.head_parts % s.kv_heads;
      const std::int64_t head = unit % u.head_parts * u.heads;
      const std::int64_t head_end = std::min(head + u.heads, s.group());
      // The last rows see the most: they come first, so that the threads end together.
      const std::int64_t part = u.row_parts - 1 - unit / (u.head_parts * s.kv_heads);
      const std::int64_t row_end = std::min((part + 1) * u.rows, rows);
      for (std::int64_t row = part * u.rows; row < row_end;) {
        std::int64_t same = row + 1;
        while (same < row_end &&
               call.rows->slots[static_cast<std::size_t>(same)] == call.rows->slots[static_cast<std::size_t>(row)])
          ++same;
        attend<V>(call, s, m, row, same, kv * s.group() + head, kv * s.group() + head_end, kv);
        row = same;
      }
    }
  });
}

}  // namespace
}  // namespace knapsack
