// The AMX pieces of packed.h: 16 tokens times two panels, the 32 or 16 columns of a group in one instruction. The sums
// leave the tile after every group, since each has its scale; what tiles do not fill is left to AVX-512-VNNI.
#include <atomic>
#include <utility>

#include "kernels/x86/two_panels.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

constexpr std::int64_t tile_tokens = 16;
constexpr std::int64_t tile_rows = 2 * packed_rows;
constexpr std::int64_t line = 4 * tile_rows;    // bytes: four columns of each row
constexpr std::int64_t block_bytes = 8 * line;  // of unpacked codes
constexpr std::int64_t most_blocks = 16;        // of a piece
constexpr std::int64_t most_factors = 2 * most_blocks * tile_rows;

// Some blocks of two panels as tiles want them, small enough to stay in L1 while all tokens pass.
struct Piece {
  alignas(64) std::array<std::byte, most_blocks * block_bytes> codes;  // [blocks, 8 lines]
  alignas(64) std::array<float, most_factors> scales, mins;            // [blocks, groups, rows]
};

// What the tiles are, as the processor reads it. 0: the sums, [tokens, rows]; 1: activations, [tokens, columns of a
// group]; 2: codes, a line for four columns.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> line_bytes{};
  std::array<std::uint8_t, 16> lines{};

  explicit TileShapes(int columns)
      : line_bytes{line, static_cast<std::uint16_t>(columns), line},
        lines{tile_tokens, tile_tokens, static_cast<std::uint8_t>(columns / 4)} {}
};
static_assert(sizeof(TileShapes) == 64);

// gcc's tile instructions do not say that they read memory: what was written before them is written now.
KNAP_INLINE void before_tiles() { std::atomic_signal_fence(std::memory_order_seq_cst); }

template <int bits>
void unpack(const std::byte* at, std::int64_t next, const PackedKind& kind, std::int64_t blocks, Piece& piece) {
  const auto factors = [&](const std::byte* from, float* to) {
    _mm512_storeu_ps(to, TwoPanels::load_factors(from, next));
  };
  for (std::int64_t b = 0; b < blocks; ++b, at += kind.block_bytes()) {
    std::byte* codes = piece.codes.data() + b * block_bytes;
    [&]<int... v>(std::integer_sequence<int, v...>) {
      (_mm512_storeu_si512(codes + v * line, (codes_of<TwoPanels, bits, v>(at, next))), ...);
    }
    (std::make_integer_sequence<int, 8>{});
    for (std::int64_t g = 0; g < kind.groups; ++g) {
      const std::byte* halves = at + kind.code_bytes() + 16 * g;
      const std::int64_t to = (b * kind.groups + g) * tile_rows;
      factors(halves, piece.scales.data() + to);
      if (kind.min) factors(halves + std::ptrdiff_t{16} * kind.groups, piece.mins.data() + to);
    }
  }
}

// Blocks [first, last) of 16 tokens from `token` on; `row`: the first of the two panels'.
template <int groups, bool min>
void tile(const PackedJob& job, const Piece& piece, std::int64_t first, std::int64_t last, std::int64_t row,
          std::int64_t token) {
  constexpr std::int64_t columns = packed_block / groups;
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::int64_t count = std::min(tile_rows, job.w->rows - row);
  const auto mask = static_cast<__mmask16>(0xffffU >> (tile_rows - count));
  const std::int64_t y_stride = job.y_stride;
  float* out = job.y + token * y_stride + row;
  __m512 y[tile_tokens];
#pragma GCC unroll 16
  for (int t = 0; t < tile_tokens; ++t)
    y[t] = first == 0 ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(mask, out + t * y_stride);
  const std::int8_t* q = job.x.q + token * cols + first * packed_block;
  const float* d = job.x.d + token * blocks + first;
  const float* side = job.x.side + (token * blocks + first) * groups;
  const std::byte* codes = piece.codes.data();
  std::int64_t factors = 0;
  for (std::int64_t b = first; b < last; ++b, ++d)
    for (int g = 0; g < groups; ++g, q += columns, codes += line * columns / 4, ++side, factors += tile_rows) {
      alignas(64) std::int32_t sums[tile_tokens * tile_rows];
      _tile_zero(0);
      _tile_loadd(1, q, cols);
      _tile_loadd(2, codes, line);
      _tile_dpbssd(0, 1, 2);
      _tile_stored(0, sums, line);
      const __m512 scale = _mm512_loadu_ps(piece.scales.data() + factors);
#pragma GCC unroll 16
      for (int t = 0; t < tile_tokens; ++t) {
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + t * tile_rows));
        const __m512 step = _mm512_set1_ps(d[t * blocks]);
        const __m512 more = _mm512_set1_ps(side[t * blocks * groups]);
        if constexpr (min) {
          y[t] = _mm512_fmadd_ps(_mm512_mul_ps(sum, step), scale, y[t]);
          y[t] = _mm512_fmadd_ps(more, _mm512_loadu_ps(piece.mins.data() + factors), y[t]);
        } else {
          y[t] = _mm512_fmadd_ps(_mm512_fmadd_ps(sum, step, more), scale, y[t]);
        }
      }
    }
  const float* bias = last == blocks && job.bias != nullptr ? job.bias + row : nullptr;
  const float* residual = last == blocks && job.residual != nullptr ? job.residual + token * y_stride + row : nullptr;
#pragma GCC unroll 16
  for (int t = 0; t < tile_tokens; ++t) {
    if (bias != nullptr) y[t] = _mm512_add_ps(y[t], _mm512_maskz_loadu_ps(mask, bias));
    if (residual != nullptr) y[t] = _mm512_add_ps(y[t], _mm512_maskz_loadu_ps(mask, residual + t * y_stride));
    _mm512_mask_storeu_ps(out + t * y_stride, mask, y[t]);
  }
}

// The first `tokens` of panels `panel` and `panel + 1`.
void two_panels(const PackedJob& job, std::int64_t panel, std::int64_t tokens) {
  const PackedKind& kind = job.w->kind;
  const std::int64_t blocks = job.w->cols / packed_block;
  const std::int64_t next = job.w->panel_bytes();
  const std::byte* at = job.w->data.get() + panel * next;
  const auto unpack_kind = kind.bits == 4   ? unpack<4>
                           : kind.bits == 5 ? unpack<5>
                           : kind.bits == 6 ? unpack<6>
                                            : unpack<8>;
  const auto run =
      kind.groups == 1 ? (kind.min ? tile<1, true> : tile<1, false>) : (kind.min ? tile<2, true> : tile<2, false>);
  Piece piece;
  for (std::int64_t first = 0; first < blocks; first += most_blocks) {
    const std::int64_t last = std::min(first + most_blocks, blocks);
    unpack_kind(at + first * kind.block_bytes(), next, kind, last - first, piece);
    before_tiles();
    for (std::int64_t token = 0; token < tokens; token += tile_tokens)
      run(job, piece, first, last, panel * packed_rows, token);
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
  before_tiles();
  _tile_loadconfig(&shapes);
  for (std::int64_t panel = begin; panel < pairs_end; panel += 2) two_panels(job, panel, tokens);
  _tile_release();
  if (tokens < job.tokens) vnni(after(job, tokens), begin, pairs_end);
  if (pairs_end < end) vnni(job, pairs_end, end);
}

}  // namespace

const PackedTable& amx_packed() {
  static constexpr PackedTable table{
      .store = avx2_store_panel, .round = round<true>, .panels = amx_panels, .fetches = true, .tiles = true};
  return table;
}

}  // namespace knapsack
