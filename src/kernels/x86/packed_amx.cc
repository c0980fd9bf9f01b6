// The AMX pieces of packed.h: 16 tokens times two panels, the 32 or 16 columns of a group in one instruction. The sums
// leave the tile after every group, since each has its scale; what tiles do not fill is left to AVX-512-VNNI.
//
// As long as a tile instruction is in flight, vectors of 512 bits have one port instead of two (docs/kernels.md). So
// tiles and vectors take turns: the sums of some groups are all stored, and then all added up.
#include <atomic>
#include <utility>

#include "kernels/x86/two_panels.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

constexpr std::int64_t tile_tokens = 16;
constexpr std::int64_t tile_rows = 2 * packed_rows;
constexpr std::int64_t line = 4 * tile_rows;  // bytes: four columns of each row
constexpr std::int64_t tile_sums = tile_tokens * tile_rows;
// Groups of a piece: so many that turns are long, and few enough that sums, codes and activations stay in L1, which a
// neighbour on the same core may share.
constexpr std::int64_t most_groups = 6;
constexpr int most_pairs = 2;  // of panels that share what is loaded of the tokens

// Some groups of one or two pairs of panels as tiles want them, for all tokens, and the sums of 16 tokens with them.
struct Piece {
  alignas(64) std::array<std::byte, most_groups * most_pairs * 8 * line> codes;      // [groups, pairs, lines]
  alignas(64) std::array<float, most_groups * most_pairs * tile_rows> scales, mins;  // [groups, pairs, rows]
  alignas(64) std::array<std::int32_t, most_groups * most_pairs * tile_sums> sums;   // [groups, pairs, tokens, rows]
};

// What the tiles are, as the processor reads it. 0 to 3: sums, [tokens, rows]; 4 and 5: activations, [tokens, columns
// of a group]; 6 and 7: codes, a line for four columns.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> line_bytes{};
  std::array<std::uint8_t, 16> lines{};

  explicit TileShapes(int columns) {
    const auto width = static_cast<std::uint16_t>(columns);
    const auto height = static_cast<std::uint8_t>(columns / 4);
    line_bytes = {line, line, line, line, width, width, line, line};
    lines = {tile_tokens, tile_tokens, tile_tokens, tile_tokens, tile_tokens, tile_tokens, height, height};
  }
};
static_assert(sizeof(TileShapes) == 64);

// gcc's tile instructions say neither that they read memory nor that they write it: what stands before them is done
// before them, and what stands after them after them.
KNAP_INLINE void around_tiles() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// `blocks` blocks of the pair of panels at `at`, which is number `pair` of `pairs`.
template <int bits>
void unpack(const std::byte* at, std::int64_t next, const PackedKind& kind, std::int64_t blocks, int pair, int pairs,
            Piece& piece) {
  const auto factors = [&](const std::byte* from, float* to) {
    _mm512_storeu_ps(to, TwoPanels::load_factors(from, next));
  };
  const std::int64_t lines = 8 / kind.groups;  // of a group
  for (std::int64_t b = 0; b < blocks; ++b, at += kind.block_bytes()) {
    const std::int64_t group = b * kind.groups;
    const auto place = [&](std::int64_t v) {
      return piece.codes.data() + (((group + v / lines) * pairs + pair) * lines + v % lines) * line;
    };
    [&]<int... v>(std::integer_sequence<int, v...>) {
      (_mm512_storeu_si512(place(v), (codes_of<TwoPanels, bits, v>(at, next))), ...);
    }
    (std::make_integer_sequence<int, 8>{});
    for (std::int64_t g = 0; g < kind.groups; ++g) {
      const std::byte* halves = at + kind.code_bytes() + 16 * g;
      const std::int64_t to = ((group + g) * pairs + pair) * tile_rows;
      factors(halves, piece.scales.data() + to);
      if (kind.min) factors(halves + std::ptrdiff_t{16} * kind.groups, piece.mins.data() + to);
    }
  }
}

// The sums of `count` groups with 16 tokens, whose first group is at q. A tile is stored when it is needed again, by
// when it is long done.
template <int pairs>
void multiply(const std::int8_t* q, std::int64_t cols, std::int64_t columns, std::int64_t count, Piece& piece) {
  const std::int64_t codes_bytes = columns / 4 * line;
  const std::int64_t products = count * pairs;
  const std::byte* codes = piece.codes.data();
  std::int32_t* sums = piece.sums.data();
  around_tiles();
// Product i + n, in tile n.
#define KNAP_PRODUCT(n, activations, weights)                                                        \
  if (i + (n) < products) {                                                                          \
    if (pairs == 1 || (n) % 2 == 0) _tile_loadd(activations, q + (i + (n)) / pairs * columns, cols); \
    _tile_loadd(weights, codes + (i + (n)) * codes_bytes, line);                                     \
    if (i > 0) _tile_stored(n, sums + (i + (n)-4) * tile_sums, line);                                \
    _tile_zero(n);                                                                                   \
    _tile_dpbssd(n, activations, weights);                                                           \
  } else if (i > 0) {                                                                                \
    _tile_stored(n, sums + (i + (n)-4) * tile_sums, line);                                           \
  }
  std::int64_t i = 0;
  for (; i < products; i += 4) {
    if constexpr (pairs == 1) {
      KNAP_PRODUCT(0, 4, 6)
      KNAP_PRODUCT(1, 5, 7)
      KNAP_PRODUCT(2, 4, 6)
      KNAP_PRODUCT(3, 5, 7)
    } else {
      KNAP_PRODUCT(0, 4, 6)
      KNAP_PRODUCT(1, 4, 7)
      KNAP_PRODUCT(2, 5, 6)
      KNAP_PRODUCT(3, 5, 7)
    }
  }
#undef KNAP_PRODUCT
  // Those of the last round.
  const std::int64_t last = i - 4;
  _tile_stored(0, sums + last * tile_sums, line);
  if (last + 1 < products) _tile_stored(1, sums + (last + 1) * tile_sums, line);
  if (last + 2 < products) _tile_stored(2, sums + (last + 2) * tile_sums, line);
  if (last + 3 < products) _tile_stored(3, sums + (last + 3) * tile_sums, line);
  around_tiles();
}

// Blocks [first, last) of 16 tokens from `token` on, whose sums are there; `row`: the first of the panels'.
template <int groups, bool min, int pairs>
void add_up(const PackedJob& job, const Piece& piece, std::int64_t first, std::int64_t last, std::int64_t row,
            std::int64_t token) {
  constexpr int tokens = static_cast<int>(tile_tokens) / pairs;  // at once: sixteen vectors of results
  const std::int64_t blocks = job.w->cols / packed_block;
  const std::int64_t y_stride = job.y_stride;
  __mmask16 mask[pairs];
#pragma GCC unroll 2
  for (int p = 0; p < pairs; ++p)
    mask[p] = static_cast<__mmask16>(0xffffU >> (tile_rows - std::min(tile_rows, job.w->rows - row - p * tile_rows)));
  const bool done = last == blocks;
  const float* bias = done && job.bias != nullptr ? job.bias + row : nullptr;
  for (std::int64_t from = 0; from < tile_tokens; from += tokens) {
    const std::int64_t at = (token + from) * y_stride + row;
    float* out = job.y + at;
    const float* residual = done && job.residual != nullptr ? job.residual + at : nullptr;
    const float* d = job.x.d + (token + from) * blocks + first;
    const float* side = job.x.side + ((token + from) * blocks + first) * groups;
    __m512 y[pairs][tokens];
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t)
#pragma GCC unroll 2
      for (int p = 0; p < pairs; ++p)
        y[p][t] = first == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask[p], out + t * y_stride + p * tile_rows);
    const std::int32_t* sums = piece.sums.data() + from * tile_rows;
    const float* scales = piece.scales.data();
    const float* mins = piece.mins.data();
    for (std::int64_t b = first; b < last; ++b, ++d) {
#pragma GCC unroll 2
      for (int g = 0; g < groups; ++g, ++side) {
        __m512 scale[pairs];
#pragma GCC unroll 2
        for (int p = 0; p < pairs; ++p) scale[p] = _mm512_load_ps(scales + p * tile_rows);
#pragma GCC unroll 16
        for (int t = 0; t < tokens; ++t) {
          const __m512 step = _mm512_set1_ps(d[t * blocks]);
          const __m512 more = _mm512_set1_ps(side[t * blocks * groups]);
#pragma GCC unroll 2
          for (int p = 0; p < pairs; ++p) {
            const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums + p * tile_sums + t * tile_rows));
            if constexpr (min) {
              y[p][t] = _mm512_fmadd_ps(_mm512_mul_ps(sum, step), scale[p], y[p][t]);
              y[p][t] = _mm512_fmadd_ps(more, _mm512_load_ps(mins + p * tile_rows), y[p][t]);
            } else {
              y[p][t] = _mm512_fmadd_ps(_mm512_fmadd_ps(sum, step, more), scale[p], y[p][t]);
            }
          }
        }
        sums += pairs * tile_sums;
        scales += pairs * tile_rows;
        mins += pairs * tile_rows;
      }
    }
#pragma GCC unroll 16
    for (int t = 0; t < tokens; ++t)
#pragma GCC unroll 2
      for (int p = 0; p < pairs; ++p) {
        const std::int64_t to = p * tile_rows;
        if (bias != nullptr) y[p][t] = _mm512_add_ps(y[p][t], _mm512_maskz_loadu_ps(mask[p], bias + to));
        if (residual != nullptr)
          y[p][t] = _mm512_add_ps(y[p][t], _mm512_maskz_loadu_ps(mask[p], residual + t * y_stride + to));
        _mm512_mask_storeu_ps(out + t * y_stride + to, mask[p], y[p][t]);
      }
  }
}

// The first `tokens` of 2 * pairs panels from `panel` on.
template <int pairs>
void panels_at_once(const PackedJob& job, std::int64_t panel, std::int64_t tokens, Piece& piece) {
  const PackedKind& kind = job.w->kind;
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::int64_t next = job.w->panel_bytes();
  const std::byte* at = job.w->data.get() + panel * next;
  const auto unpack_kind = kind.bits == 4   ? unpack<4>
                           : kind.bits == 5 ? unpack<5>
                           : kind.bits == 6 ? unpack<6>
                                            : unpack<8>;
  const auto add = kind.groups == 1 ? (kind.min ? add_up<1, true, pairs> : add_up<1, false, pairs>)
                                    : (kind.min ? add_up<2, true, pairs> : add_up<2, false, pairs>);
  const std::int64_t most = most_groups / kind.groups;
  const std::int64_t pieces = (blocks + most - 1) / most;
  std::int64_t first = 0;
  for (std::int64_t i = 1; i <= pieces; ++i) {
    const std::int64_t last = blocks * i / pieces;
    for (int pair = 0; pair < pairs; ++pair)
      unpack_kind(at + 2 * pair * next + first * kind.block_bytes(), next, kind, last - first, pair, pairs, piece);
    for (std::int64_t token = 0; token < tokens; token += tile_tokens) {
      multiply<pairs>(job.x.q + token * cols + first * packed_block, cols, packed_block / kind.groups,
                      (last - first) * kind.groups, piece);
      add(job, piece, first, last, panel * packed_rows, token);
    }
    first = last;
  }
}

// The same job without its first tokens.
PackedJob after(const PackedJob& job, std::int64_t tokens) {
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::int64_t groups = blocks * job.w->kind.groups;
  PackedJob rest = job;
  rest.x.q += tokens * cols;
  rest.x.d += tokens * blocks;
  rest.x.side += tokens * groups;
  if (rest.x.base != nullptr) rest.x.base += tokens * groups;
  rest.y += tokens * job.y_stride;
  if (rest.residual != nullptr) rest.residual += tokens * job.y_stride;
  rest.tokens -= tokens;
  return rest;
}

void amx_panels(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  const auto vnni = avx512vnni_packed().panels;
  const std::int64_t tokens = job.tokens / tile_tokens * tile_tokens;
  const std::int64_t pairs_end = begin + (end - begin) / 2 * 2;
  if (tokens < job.w->choice.tiles || pairs_end == begin) return vnni(job, begin, end);
  const TileShapes shapes(static_cast<int>(packed_block) / job.w->kind.groups);
  around_tiles();
  _tile_loadconfig(&shapes);
  Piece piece;
  std::int64_t panel = begin;
  for (; panel + 2 * most_pairs <= end; panel += std::int64_t{2} * most_pairs)
    panels_at_once<most_pairs>(job, panel, tokens, piece);
  if (panel < pairs_end) panels_at_once<1>(job, panel, tokens, piece);
  _tile_release();
  if (tokens < job.tokens) vnni(after(job, tokens), begin, pairs_end);
  if (pairs_end < end) vnni(job, pairs_end, end);
}

}  // namespace

const PackedTable& amx_packed() {
  static constexpr PackedTable table{.store = avx2_store_panel,
                                     .round = round<true>,
                                     .panels = amx_panels,
                                     .at_once = 2 * most_pairs,
                                     .fetches = true,
                                     .tiles = true};
  return table;
}

}  // namespace knapsack
