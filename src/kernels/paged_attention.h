// attention, all but its vectors: page by page of the KV cache, with a running maximum and sum for each query (online
// softmax). A unit of work is some rows x some query heads that share one kv head, so that a page is read and widened
// once for all of them. What a query adds up, and in which order, depends on its own range of positions and on the page
// borders only: neither on the other queries of the unit nor on the threads.
//
// An instruction set brings a class V with
//   tile_rows, tile_vectors   how many keys, and at most how many queries, its tiles take
//   widen(dtype, from, count, to)             `count` columns of the cache as floats
//   score(dtype, queries), value(dtype, queries)   the tiles: ScoreFn, ValueFn
//   weigh(shape, query, begin, end, scores)   raw scores of positions [begin, end) of a page become weights
//                                             e^(score - highest), places outside become 0 as far as vectors reach;
//                                             returns what earlier sums are to be multiplied by
//   multiply_all(x, width, factor)
// Widths are multiples of 8, memory is 64-byte aligned. x86/attention_avx2.cc has a form of its own, which fetches the
// next page on the way. Included by attention_*.cc only; everything is in an unnamed namespace, since each of these
// files may be compiled for another instruction set.
#pragma once

#include <algorithm>
#include <limits>

#include "base/check.h"
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

// Keys or values of one kv head in a page: in the cache itself, or widened.
struct PageRows {
  const std::byte* at;
  std::int64_t stride;  // bytes
  DType dtype;
};

// scores[t * stride + p] = q[t] . k[p] for positions [begin, end) of the page; begin is a multiple of tile_rows, and
// positions up to the next one from `end` may be written. v's rows of v_bytes may be fetched ahead.
using ScoreFn = void (*)(const PageRows& k, const PageRows& v, std::int64_t v_bytes, const float* q, std::int64_t width,
                         std::int64_t begin, std::int64_t end, std::int64_t stride, float* scores);
// out[t * width ...] += sum over positions [begin, end) of weights[t * stride + p] * v[p].
using ValueFn = void (*)(const PageRows& v, std::int64_t width, const float* weights, std::int64_t stride,
                         std::int64_t begin, std::int64_t end, float* out);

// Rows [begin, end) of a page, `count` columns from `page` on, as `queries` queries will read them: many queries pay
// for widening the rows to float once (into `memory`), few read the cache itself. Q8_0 and rows of a width that vectors
// do not divide are always copied, padded with zeros.
template <class V>
PageRows page_rows(const StateView& state, const std::byte* page, std::int64_t begin, std::int64_t end,
                   std::int64_t count, std::int64_t queries, float* memory) {
  const std::int64_t stride = state.row_stride();
  if (state.dtype != DType::Q8_0 && count % 8 == 0 && (queries <= V::tile_vectors || state.dtype == DType::F32))
    return {.at = page, .stride = stride, .dtype = state.dtype};
  const std::int64_t width = pad(count, 8);
  for (std::int64_t r = begin; r < end; ++r) {
    float* to = memory + r * width;
    V::widen(state.dtype, page + r * stride, count, to);
    std::fill_n(to + count, width - count, 0.0F);
  }
  return {.at = reinterpret_cast<const std::byte*>(memory),
          .stride = width * std::int64_t{sizeof(float)},
          .dtype = DType::F32};
}

// One page for all queries of a unit; `begin` is the page's first position.
template <class V>
void attend_page(const Shape& s, const Memory& m, const PageRows& keys, const PageRows& values, std::int64_t count,
                 std::int64_t begin, std::int64_t page) {
  const std::int64_t stride = pad(page, 8);
  std::int64_t from = page;
  std::int64_t to = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    from = std::min(from, std::max<std::int64_t>(0, m.queries[i].first - begin));
    to = std::max(to, std::min(page, m.queries[i].end - begin));
  }
  const std::int64_t v_bytes = count <= V::tile_vectors ? s.v_width * row_bytes(values.dtype, 1) : 0;
  for (std::int64_t i = 0; i < count; i += V::tile_vectors) {
    const std::int64_t width = std::min(V::tile_vectors, count - i);
    V::score(keys.dtype, width)(keys, values, v_bytes, m.q + i * s.k_width, s.k_width,
                                from / V::tile_rows * V::tile_rows, to, stride, m.scores + i * stride);
  }
  const auto range_begin = [&](std::int64_t i) { return std::max<std::int64_t>(0, m.queries[i].first - begin); };
  const auto range_end = [&](std::int64_t i) { return std::min(page, m.queries[i].end - begin); };
  for (std::int64_t i = 0; i < count; ++i) {
    if (range_begin(i) >= range_end(i)) continue;
    const float factor = V::weigh(s, m.queries[i], range_begin(i), range_end(i), m.scores + i * stride);
    if (factor != 1.0F) V::multiply_all(m.out + i * s.v_width, s.v_width, factor);
  }
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t p = range_begin(i);
    const std::int64_t end = range_end(i);
    std::int64_t same = 1;
    while (same < V::tile_vectors && i + same < count && range_begin(i + same) == p && range_end(i + same) == end)
      ++same;
    if (p < end)
      V::value(values.dtype, same)(values, s.v_width, m.scores + i * stride, stride, p, end, m.out + i * s.v_width);
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
  for (std::int64_t begin = first / page * page; begin < end; begin += page) {
    const std::int64_t from = std::max<std::int64_t>(0, first - begin);
    const std::int64_t to = std::min(page, end - begin);
    const PageRows k = page_rows<V>(keys, keys.at(slot, begin, kv * s.head_dim), from, to, s.head_dim, count, m.k);
    const PageRows v = page_rows<V>(values, values.at(slot, begin, kv * s.v_stride), from, to, s.v_dim, count, m.v);
    attend_page<V>(s, m, k, v, count, begin, page);
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
  CHECK(page % V::tile_rows == 0 && call.in[2].state->page_tokens == page);
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
