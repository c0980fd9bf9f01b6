// attention: page by page of the KV cache, with a running maximum and sum for each query (online softmax).
// A unit of work is some rows x some query heads that share one kv head, so that a page is read and widened once for
// all of them. What a query adds up, and in which order, depends on its own range of positions and on the page borders
// only: neither on the other queries of the unit nor on the threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/x86/attention_tiles.h"
#include "kernels/x86/kernels_avx2.h"
#include "kernels/x86/math_avx2.h"
#include "kernels/x86/tile_avx2.h"

namespace knapsack::avx2 {
namespace {

constexpr float lowest = -std::numeric_limits<float>::infinity();

// Queries of a unit: enough to pay for widening a page, few enough that their sums stay in L2.
constexpr std::int64_t most_queries = 48;

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
  float *q, *out, *scores, *k, *v;
  Query* queries;
};

std::int64_t memory_floats(const Shape& s, std::int64_t page) {
  const std::int64_t per_query = s.k_width + s.v_width + pad(page, 8) + std::int64_t{sizeof(Query) / sizeof(float)};
  return pad(most_queries * per_query + page * (s.k_width + s.v_width), 16) + 6 * 16;
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
  m.k = take(page * s.k_width);
  m.v = take(page * s.v_width);
  m.queries = reinterpret_cast<Query*>(take(most_queries * std::int64_t{sizeof(Query) / sizeof(float)}));
  return m;
}

// count: of Q8_0 values; what the last block has beyond them is not written.
void widen_q8(const std::byte* from, std::int64_t count, float* to) {
  std::int64_t i = 0;
  for (; i < count; from += 34) {
    const __m256 scale = broadcast_half(from);
    for (std::int64_t j = 0; j < 32 && i < count; j += 8, i += 8) {
      const __m256 values = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8_bytes(from + 2 + j))));
      if (i + 8 <= count) {
        _mm256_storeu_ps(to + i, values);
      } else {
        _mm256_maskstore_ps(to + i, first_lanes(count - i), values);
      }
    }
  }
}

// Rows [begin, end) of a page, `count` columns from `page` on, as they will be read: from the cache itself (`direct`:
// they are read once, by one tile of queries), or widened to float once, into `memory`. Q8_0 and rows of a width that
// vectors do not divide are always copied, padded with zeros.
PageRows page_rows(const StateView& state, const std::byte* page, std::int64_t begin, std::int64_t end,
                   std::int64_t count, bool direct, float* memory) {
  const std::int64_t stride = state.row_stride();
  if (state.dtype != DType::Q8_0 && count % 8 == 0 && (direct || state.dtype == DType::F32))
    return {.at = page, .stride = stride, .dtype = state.dtype};
  const std::int64_t width = pad(count, 8);
  const std::int64_t whole = count / 8 * 8;
  for (std::int64_t r = begin; r < end; ++r) {
    const std::byte* from = page + r * stride;
    float* to = memory + r * width;
    if (state.dtype == DType::F32) {
      std::copy_n(reinterpret_cast<const float*>(from), count, to);
    } else if (state.dtype == DType::Q8_0) {
      widen_q8(from, count, to);
    } else {
      for (std::int64_t i = 0; i < whole; i += 8) _mm256_store_ps(to + i, load_halves(from + 2 * i));
      for (std::int64_t i = whole; i < count; ++i) to[i] = load_half_avx2(from + 2 * i);
    }
    std::fill_n(to + count, width - count, 0.0F);
  }
  return {.at = reinterpret_cast<const std::byte*>(memory),
          .stride = width * std::int64_t{sizeof(float)},
          .dtype = DType::F32};
}

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
    if (v_bytes > 0) {  // read from the cache itself
      fetch_ahead(k, p + 4 * tile_rows, width * L::bytes);
      fetch_ahead(v, p, v_bytes);
    }
    __m256 sum[4][T];
    multiply_tile<L, T, false>(k.at + p * k.stride, k.stride, q, width, width, nullptr, 0, sum);
    if constexpr (T > 1) {
      const __m256 two =
          lane_sums({sum[0][0], sum[1][0], sum[2][0], sum[3][0]}, {sum[0][1], sum[1][1], sum[2][1], sum[3][1]});
      _mm_store_ps(scores + p, _mm256_castps256_ps128(two));
      _mm_store_ps(scores + stride + p, _mm256_extractf128_ps(two, 1));
    }
    if constexpr (T != 2)
      _mm_store_ps(scores + (T - 1) * stride + p,
                   lane_sums(sum[0][T - 1], sum[1][T - 1], sum[2][T - 1], sum[3][T - 1]));
  }
}

// Raw scores of positions [begin, end) of the page become weights e^(score - highest); returns what earlier sums are
// to be multiplied by. Places of the page outside [begin, end) become 0 as far as vectors reach.
float weigh(const Shape& s, Query& query, std::int64_t begin, std::int64_t end, float* scores) {
  const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i from = _mm256_set1_epi32(static_cast<int>(begin) - 1);
  const __m256i to = _mm256_set1_epi32(static_cast<int>(end));
  const __m256 scale = _mm256_set1_ps(s.scale);
  const __m256 none = _mm256_set1_ps(lowest);
  if (s.softcap > 0)
    for (std::int64_t p = begin; p < end; ++p) scores[p] = s.softcap * std::tanh(scores[p] * s.scale / s.softcap);
  __m256 most = none;
  for (std::int64_t p = begin / 8 * 8; p < end; p += 8) {
    const __m256i at = _mm256_add_epi32(place, _mm256_set1_epi32(static_cast<int>(p)));
    const __m256 seen = _mm256_castsi256_ps(_mm256_and_si256(_mm256_cmpgt_epi32(at, from), _mm256_cmpgt_epi32(to, at)));
    __m256 score = _mm256_load_ps(scores + p);
    if (s.softcap <= 0) score = _mm256_mul_ps(score, scale);
    score = _mm256_blendv_ps(none, score, seen);
    _mm256_store_ps(scores + p, score);
    most = _mm256_max_ps(most, score);
  }
  const float before = query.highest;
  query.highest = std::max(before, lane_max(most));
  const __m256 highest = _mm256_set1_ps(query.highest);
  __m256 sum = _mm256_setzero_ps();
  for (std::int64_t p = begin / 8 * 8; p < end; p += 8) {
    const __m256 weight = exp_avx2(_mm256_sub_ps(_mm256_load_ps(scores + p), highest));
    _mm256_store_ps(scores + p, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  const float factor =
      before == query.highest ? 1.0F : _mm256_cvtss_f32(exp_avx2(_mm256_set1_ps(before - query.highest)));
  query.sum = query.sum * factor + lane_sum(sum);
  return factor;
}

void multiply_all(float* x, std::int64_t width, float factor) {
  const __m256 f = _mm256_set1_ps(factor);
  for (std::int64_t i = 0; i < width; i += 8) _mm256_store_ps(x + i, _mm256_mul_ps(_mm256_load_ps(x + i), f));
}

// out[t] += sum over p of weights[t][p] * v[p], for N vectors of columns. A cache line of each row of `next` is fetched
// on the way.
template <class L, int T, int N>
KNAP_INLINE void add_values(const std::byte* v, std::int64_t v_stride, std::int64_t width, const float* weights,
                            std::int64_t stride, std::int64_t begin, std::int64_t end, float* out,
                            const std::byte* next, std::int64_t next_stride) {
  __m256 sum[T][N];
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) sum[t][n] = _mm256_load_ps(out + t * width + 8 * n);
  for (std::int64_t p = begin; p < end; ++p) {
    __builtin_prefetch(next + p * next_stride);
    __m256 weight[T];
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) weight[t] = _mm256_broadcast_ss(weights + t * stride + p);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const __m256 value = L::eight(v + p * v_stride + 8 * n * L::bytes);
#pragma GCC unroll 3
      for (int t = 0; t < T; ++t) sum[t][n] = _mm256_fmadd_ps(weight[t], value, sum[t][n]);
    }
  }
#pragma GCC unroll 3
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) _mm256_store_ps(out + t * width + 8 * n, sum[t][n]);
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

// One page for all queries of a unit; `begin` is the page's first position. `next`: the keys of the page after it.
void attend_page(const Shape& s, const AttentionTiles& tiles, const Memory& m, const PageRows& keys,
                 const PageRows& values, const PageRows& next, std::int64_t count, std::int64_t begin,
                 std::int64_t page) {
  const std::int64_t stride = pad(page, 8);
  std::int64_t from = page;
  std::int64_t to = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    from = std::min(from, std::max<std::int64_t>(0, m.queries[i].first - begin));
    to = std::max(to, std::min(page, m.queries[i].end - begin));
  }
  const std::int64_t v_bytes = count <= tiles.queries() ? s.v_width * row_bytes(values.dtype, 1) : 0;
  for (std::int64_t i = 0; i < count; i += tiles.queries())
    tiles.score(keys.dtype, std::min(tiles.queries(), count - i))(keys, values, v_bytes, m.q + i * s.k_width, s.k_width,
                                                                  from / tile_rows * tile_rows, to, stride,
                                                                  m.scores + i * stride);
  const auto range_begin = [&](std::int64_t i) { return std::max<std::int64_t>(0, m.queries[i].first - begin); };
  const auto range_end = [&](std::int64_t i) { return std::min(page, m.queries[i].end - begin); };
  for (std::int64_t i = 0; i < count; ++i) {
    if (range_begin(i) >= range_end(i)) continue;
    const float factor = weigh(s, m.queries[i], range_begin(i), range_end(i), m.scores + i * stride);
    if (factor != 1.0F) multiply_all(m.out + i * s.v_width, s.v_width, factor);
  }
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t p = range_begin(i);
    const std::int64_t end = range_end(i);
    std::int64_t same = 1;
    while (same < tiles.queries() && i + same < count && range_begin(i + same) == p && range_end(i + same) == end)
      ++same;
    if (p < end)
      tiles.value(values.dtype, same)(values, s.v_width, m.scores + i * stride, stride, p, end, m.out + i * s.v_width,
                                      next);
    i += same;
  }
}

// Rows [row, row_end), all of one slot, with query heads [head, head_end) of kv head `kv`.
void attend(const OpCall& call, const Shape& s, const AttentionTiles& tiles, const Memory& m, std::int64_t row,
            std::int64_t row_end, std::int64_t head, std::int64_t head_end, std::int64_t kv) {
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
  const bool direct = count <= tiles.queries();
  for (std::int64_t begin = first / page * page; begin < end; begin += page) {
    const std::int64_t from = std::max<std::int64_t>(0, first - begin);
    const std::int64_t to = std::min(page, end - begin);
    const PageRows k = page_rows(keys, keys.at(slot, begin, kv * s.head_dim), from, to, s.head_dim, direct, m.k);
    const PageRows v = page_rows(values, values.at(slot, begin, kv * s.v_stride), from, to, s.v_dim, direct, m.v);
    // Where there is no page after it, this one is fetched again, which costs nothing.
    const std::int64_t after = begin + page < end ? begin + page : begin;
    const PageRows next{.at = keys.at(slot, after, kv * s.head_dim), .stride = keys.row_stride(), .dtype = keys.dtype};
    attend_page(s, tiles, m, k, v, next, count, begin, page);
  }
  count = 0;
  for (std::int64_t r = row; r < row_end; ++r)
    for (std::int64_t h = head; h < head_end; ++h, ++count) {
      const float* sums = m.out + count * s.v_width;
      float* y = call.out[0].f32() + (r * s.heads + h) * s.v_dim;
      for (std::int64_t i = 0; i < s.v_dim; ++i) y[i] = sums[i] / m.queries[count].sum;
    }
}

}  // namespace

std::size_t attention_scratch(const OpCall& shape, std::int64_t, int threads) {
  const std::int64_t page = shape.in[1].state->page_tokens;
  return static_cast<std::size_t>(memory_floats(Shape(*shape.attrs), page) * threads) * sizeof(float);
}

void attention_by(const OpCall& call, const AttentionTiles& tiles) {
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
        attend(call, s, tiles, m, row, same, kv * s.group() + head, kv * s.group() + head_end, kv);
        row = same;
      }
    }
  });
}

void attention(const OpCall& call) {
  static constexpr AttentionTiles tiles{.score_f32 = score_tiles<LoadF32>,
                                        .score_f16 = score_tiles<LoadF16>,
                                        .value_f32 = value_tiles<LoadF32>,
                                        .value_f16 = value_tiles<LoadF16>};
  attention_by(call, tiles);
}

}  // namespace knapsack::avx2
