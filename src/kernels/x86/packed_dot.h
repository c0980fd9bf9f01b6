// The integer products of packed.h for every x86 instruction set: one body over V, a vector of one panel or of two.
// Included by the packed_*.cc files only, each of which says what its V are and is compiled for its own ISA.
//
// A V has the types Ints and Floats, `panels`, `tokens` and `vectors` (at most of a tile, so that sums and results fill
// the registers), `opens` (many tokens: codes are made bytes once for all of them) and `dots` and, where that is true,
// dot(sum, codes, q): sum + four products of unsigned codes with signed q in each 32-bit lane. Where it is false
// maddubs multiplies and adds pairs in int16. How many such products fit there before they must be widened: 127 * 2 *
// (2^bits - 1) each, so 8 of 4 bits, 4 of 5, 2 of 6; signed bytes go as |code| * (q with code's sign), 127 * 128 * 2,
// one. For dot() signed bytes become unsigned by adding 128, and sums begin with -128 * sum of q (PackedInput::base).
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernels/packed.h"
#include "kernels/x86/avx2.h"

namespace knapsack {
namespace {  // NOLINT(google-build-namespaces): avx2.h says why

// A vector of one panel, in AVX2's instructions; a V adds `tokens`, `vectors`, `opens`, `dots` and dot(). `next` is
// what lies between two panels, which one has no need of.
struct OnePanel {
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int panels = 1;
  static KNAP_INLINE Ints load(const std::byte* p, std::int64_t /*next*/) { return load_32_bytes(p); }
  static KNAP_INLINE Floats load_factors(const std::byte* p, std::int64_t /*next*/) { return load_halves(p); }
  static KNAP_INLINE void keep(std::byte* p, Ints v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
  static KNAP_INLINE void keep_rows(float* p, Floats v) { _mm256_storeu_ps(p, v); }
  static KNAP_INLINE Ints bytes(char v) { return _mm256_set1_epi8(v); }
  static KNAP_INLINE Ints lanes(std::int32_t v) { return _mm256_set1_epi32(v); }
  static KNAP_INLINE Ints zeros() { return _mm256_setzero_si256(); }
  static KNAP_INLINE Ints both(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  static KNAP_INLINE Ints either(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  static KNAP_INLINE Ints flip(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
  template <int by>
  static KNAP_INLINE Ints right(Ints a) {
    return by >= 0 ? _mm256_srli_epi16(a, by & 15) : _mm256_slli_epi16(a, -by & 15);
  }
  static KNAP_INLINE Ints magnitude(Ints a) { return _mm256_abs_epi8(a); }
  static KNAP_INLINE Ints with_sign(Ints a, Ints of) { return _mm256_sign_epi8(a, of); }
  static KNAP_INLINE Ints pairs(Ints codes, Ints q) { return _mm256_maddubs_epi16(codes, q); }
  static KNAP_INLINE Ints add_pairs(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  static KNAP_INLINE Ints widen(Ints pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
  static KNAP_INLINE Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static KNAP_INLINE Floats to_floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  static KNAP_INLINE Floats all(const float* v) { return _mm256_broadcast_ss(v); }
  static KNAP_INLINE Floats none() { return _mm256_setzero_ps(); }
  static KNAP_INLINE Floats load_rows(const float* p) { return _mm256_loadu_ps(p); }
  static KNAP_INLINE Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static KNAP_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  // The first `count` rows, plus those of bias and then those of residual where there are such.
  static KNAP_INLINE void store(float* out, const float* bias, const float* residual, std::int64_t count, Floats y) {
    if (count >= packed_rows) {
      if (bias != nullptr) y = _mm256_add_ps(y, _mm256_loadu_ps(bias));
      if (residual != nullptr) y = _mm256_add_ps(y, _mm256_loadu_ps(residual));
      _mm256_storeu_ps(out, y);
      return;
    }
    const __m256i mask = first_lanes(count);
    if (bias != nullptr) y = _mm256_add_ps(y, _mm256_maskload_ps(bias, mask));
    if (residual != nullptr) y = _mm256_add_ps(y, _mm256_maskload_ps(residual, mask));
    _mm256_maskstore_ps(out, mask, y);
  }
};

// Vector v (0 to 7) of a block's codes: byte 4r + c is column 4v + c of row r.
template <class V, int bits, int v>
KNAP_INLINE typename V::Ints codes_of(const std::byte* p, std::int64_t next) {
  if constexpr (bits == 8) {
    return V::load(p + 32 * v, next);
  } else {
    const typename V::Ints two = V::load(p + 32 * (v % 4), next);
    typename V::Ints codes = V::both(V::template right<v / 4 * 4>(two), V::bytes(15));
    if constexpr (bits == 5)
      codes = V::either(codes, V::both(V::template right<v - 4>(V::load(p + 128, next)), V::bytes(16)));
    if constexpr (bits == 6)
      codes = V::either(
          codes, V::both(V::template right<2 * (v % 4) - 4>(V::load(p + 128 + 32 * (v / 4), next)), V::bytes(48)));
    return codes;
  }
}

// Columns 4v..4v+3 of a token's block, in every row's place.
template <class V>
KNAP_INLINE typename V::Ints four_of(const std::int8_t* q, int v) {
  return V::lanes(load_unaligned<std::int32_t>(reinterpret_cast<const std::byte*>(q) + 4 * v));
}

// What a tile multiplies, as it is packed: P vectors of panels, `next` bytes between two panels.
template <class V, int P, int bits, int groups, bool min>
struct Packed {
  static constexpr PackedKind kind{.bits = bits, .groups = groups, .min = min};
  static constexpr std::int64_t block_bytes = kind.block_bytes();
  const std::byte* at;
  std::int64_t next;
  [[nodiscard]] KNAP_INLINE const std::byte* vector(int i) const { return at + i * V::panels * next; }
  template <int v>
  [[nodiscard]] KNAP_INLINE typename V::Ints codes(int i) const {
    return codes_of<V, bits, v>(vector(i), next);
  }
  [[nodiscard]] KNAP_INLINE typename V::Floats factors(int i, int which) const {
    return V::load_factors(vector(i) + kind.code_bytes() + 16 * which, next);
  }
};

// The same opened: every code a byte and every factor a float, so that nothing is left to do for a token but to
// multiply. Vectors of 32 bytes, those of the P panels side by side: the codes, the
// scales, the mins.
template <class V, int P, int bits, int groups, bool min>
struct Opened {
  static constexpr int vectors = 8;
  static constexpr std::int64_t block_bytes = std::int64_t{32} * P * (vectors + groups * (min ? 2 : 1));
  const std::byte* at;
  [[nodiscard]] static constexpr std::int64_t place(int vector, int i) { return std::int64_t{32} * (P * vector + i); }
  template <int v>
  [[nodiscard]] KNAP_INLINE typename V::Ints codes(int i) const {
    return V::load(at + place(v, i), 0);
  }
  [[nodiscard]] KNAP_INLINE typename V::Floats factors(int i, int which) const {
    return V::load_rows(reinterpret_cast<const float*>(at + place(vectors + which, i)));
  }

  // `count` blocks from those that are packed.
  static void open(Packed<V, P, bits, groups, min> from, std::int64_t count, std::byte* to) {
    for (; count > 0; --count, from.at += from.block_bytes, to += block_bytes)
#pragma GCC unroll 2
      for (int i = 0; i < P; ++i) {
        [&]<int... v>(std::integer_sequence<int, v...>) { (V::keep(to + place(v, i), from.template codes<v>(i)), ...); }
        (std::make_integer_sequence<int, 8>{});
        for (int which = 0; which < groups * (min ? 2 : 1); ++which)
          V::keep_rows(reinterpret_cast<float*>(to + place(vectors + which, i)), from.factors(i, which));
      }
  }
};

// Says that a vector is made here, in a register. Left alone, compilers put off the additions of a whole block, so that
// products that wait for theirs fill the registers and spill, and load what two panels share twice.
template <class V>
KNAP_INLINE void settle(typename V::Ints& vector) {
#if defined(KNAP_EMULATED_VECTORS)
  (void)vector;
#else
  asm("" : "+v"(vector));
#endif
}

// Pairs of products, or sums of four, of vector v with T tokens added to those before; `first`: there are none.
template <class V, int bits, int P, int T, int v, bool first, class From>
KNAP_INLINE void multiply(const From& from, const std::int8_t* q, std::int64_t stride, typename V::Ints (&sums)[P][T]) {
  typename V::Ints w[P];
  typename V::Ints size[P];
#pragma GCC unroll 2
  for (int i = 0; i < P; ++i) {
    w[i] = from.template codes<v>(i);
    if constexpr (V::dots && bits == 8) w[i] = V::flip(w[i], V::bytes(-128));
    size[i] = bits == 8 && !V::dots ? V::magnitude(w[i]) : w[i];
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    typename V::Ints x = four_of<V>(q + t * stride, v);
    settle<V>(x);
#pragma GCC unroll 2
    for (int i = 0; i < P; ++i) {
      if constexpr (V::dots) {
        sums[i][t] = V::dot(sums[i][t], w[i], x);
      } else {
        const typename V::Ints product = V::pairs(size[i], bits == 8 ? V::with_sign(x, w[i]) : x);
        sums[i][t] = first ? product : V::add_pairs(sums[i][t], product);
        settle<V>(sums[i][t]);
      }
    }
  }
}

// `count` vectors from `first` on, one after the other; `fresh`: sums hold nothing yet.
template <class V, int bits, int P, int T, int first, int count, bool fresh, class From>
KNAP_INLINE void multiply_run(const From& from, const std::int8_t* q, std::int64_t stride,
                              typename V::Ints (&sums)[P][T]) {
  multiply<V, bits, P, T, first, fresh>(from, q, stride, sums);
  if constexpr (count > 1) multiply_run<V, bits, P, T, first + 1, count - 1, false>(from, q, stride, sums);
}

// sums[i][t] = the products of vectors [first, first + count) with T tokens, in int32 by row; those of dot() are added
// to what is there.
template <class V, int bits, int P, int T, int first, int count, bool fresh = true, class From>
KNAP_INLINE void products(const From& from, const std::int8_t* q, std::int64_t stride, typename V::Ints (&sums)[P][T]) {
  if constexpr (V::dots) {
    multiply_run<V, bits, P, T, first, count, false>(from, q, stride, sums);
  } else {
    constexpr int fit = bits == 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    constexpr int run = fit < count ? fit : count;
    typename V::Ints pairs[P][T];
    multiply_run<V, bits, P, T, first, run, true>(from, q, stride, pairs);
#pragma GCC unroll 2
    for (int i = 0; i < P; ++i)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const typename V::Ints wide = V::widen(pairs[i][t]);
        sums[i][t] = fresh ? wide : V::add(sums[i][t], wide);
        if constexpr (count > run) settle<V>(sums[i][t]);
      }
    if constexpr (count > run) products<V, bits, P, T, first + run, count - run, false>(from, q, stride, sums);
  }
}

// The results of P vectors of panels for T tokens; `done`: with bias and residual.
template <class V, int P, int T>
KNAP_INLINE void store_results(const PackedJob& job, const typename V::Floats (&results)[P][T], std::int64_t panel,
                               std::int64_t token, bool done) {
  for (int i = 0; i < P; ++i) {
    const std::int64_t row = (panel + i * V::panels) * packed_rows;
    const std::int64_t count = std::min(V::panels * packed_rows, job.w->rows - row);
    const float* bias = done && job.bias != nullptr ? job.bias + row : nullptr;
    for (int t = 0; t < T; ++t) {
      const std::int64_t at = (token + t) * job.y_stride + row;
      V::store(job.y + at, bias, done && job.residual != nullptr ? job.residual + at : nullptr, count, results[i][t]);
    }
  }
}

// A function of its own: within the tile it would take registers from the loop before, which then spills its sums.
// Panels that are whole, as all but the last ones are, are stored without a look at how many rows there are: that look
// had cost prefill of 4 bits a twentieth.
template <class V, int P, int T>
__attribute__((noinline)) void store_tile(const PackedJob& job, const typename V::Floats (&results)[P][T],
                                          std::int64_t panel, std::int64_t token, bool done) {
  constexpr std::int64_t rows = V::panels * packed_rows;
  const std::int64_t row = panel * packed_rows;
  if (row + P * rows > job.w->rows) return store_results<V, P, T>(job, results, panel, token, done);
  const float* bias = done && job.bias != nullptr ? job.bias + row : nullptr;
  std::int64_t at = token * job.y_stride + row;
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t, at += job.y_stride) {
    const float* residual = done && job.residual != nullptr ? job.residual + at : nullptr;
#pragma GCC unroll 2
    for (int i = 0; i < P; ++i)
      V::store(job.y + at + i * rows, bias != nullptr ? bias + i * rows : nullptr,
               residual != nullptr ? residual + i * rows : nullptr, rows, results[i][t]);
  }
}

// Blocks [first, last) of P vectors of panels with T tokens from `token` on; `from`: block `first`. Unless `fresh`, y
// holds what the blocks before gave.
template <class V, int bits, int groups, bool min, int P, int T, bool fresh, class From>
KNAP_INLINE void tile(const PackedJob& job, From from, std::int64_t first, std::int64_t last, std::int64_t panel,
                      std::int64_t token) {
  const std::int64_t cols = job.w->cols;
  const std::int64_t blocks = cols / packed_block;
  const std::int8_t* q = job.x.q + token * cols + first * packed_block;
  const float* d = job.x.d + token * blocks;
  const float* side = job.x.side + token * blocks * groups;
  typename V::Floats y[P][T];
#pragma GCC unroll 2
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      if constexpr (fresh) {
        y[i][t] = V::none();
      } else {
        y[i][t] = V::load_rows(job.y + (token + t) * job.y_stride + (panel + i * V::panels) * packed_rows);
      }
  const std::int64_t ahead = job.w->choice.ahead;
  for (std::int64_t b = first; b < last; ++b, from.at += from.block_bytes, q += packed_block) {
    if constexpr (T == 1) {
      for (int of = 0; of < P * V::panels && ahead > 0; ++of)
        for (int at = 0; at < from.block_bytes; at += 64) __builtin_prefetch(from.at + of * from.next + ahead + at);
    }
#pragma GCC unroll 2
    for (int g = 0; g < groups; ++g) {
      typename V::Ints sums[P][T];
      if constexpr (V::dots) {
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 2
          for (int i = 0; i < P; ++i)
            sums[i][t] = bits == 8 ? V::lanes(job.x.base[((token + t) * blocks + b) * groups + g]) : V::zeros();
      }
      if constexpr (groups == 1) {
        products<V, bits, P, T, 0, 8>(from, q, cols, sums);
      } else if (g == 0) {
        products<V, bits, P, T, 0, 4>(from, q, cols, sums);
      } else {
        products<V, bits, P, T, 4, 4>(from, q, cols, sums);
      }
      typename V::Floats scale[P];
#pragma GCC unroll 2
      for (int i = 0; i < P; ++i) scale[i] = from.factors(i, g);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const typename V::Floats step = V::all(d + t * blocks + b);
        const typename V::Floats more = V::all(side + (t * blocks + b) * groups + g);
#pragma GCC unroll 2
        for (int i = 0; i < P; ++i) {
          const typename V::Floats sum = V::to_floats(sums[i][t]);
          if constexpr (min) {
            y[i][t] = V::fma(V::multiply(sum, step), scale[i], y[i][t]);
            y[i][t] = V::fma(more, from.factors(i, groups + g), y[i][t]);
          } else {
            y[i][t] = V::fma(V::fma(sum, step, more), scale[i], y[i][t]);
          }
        }
      }
    }
  }
  if constexpr (T == 1) {
    store_results<V, P, T>(job, y, panel, token, last == blocks);
  } else {
    typename V::Floats results[P][T];
#pragma GCC unroll 2
    for (int i = 0; i < P; ++i)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) results[i][t] = y[i][t];
    store_tile<V, P, T>(job, results, panel, token, last == blocks);
  }
}

// Not inlined, as opened_tile().
template <class V, int bits, int groups, bool min, int P, int T>
__attribute__((noinline)) void tile(const PackedJob& job, std::int64_t panel, std::int64_t token) {
  const std::int64_t next = job.w->panel_bytes();
  const Packed<V, P, bits, groups, min> from{.at = job.w->data.get() + panel * next, .next = next};
  tile<V, bits, groups, min, P, T, true>(job, from, 0, job.w->cols / packed_block, panel, token);
}

// A function of its own: in the loops around it compilers keep its sums in memory.
template <class V, int bits, int groups, bool min, bool fresh, class From>
__attribute__((noinline)) void opened_tile(const PackedJob& job, From from, std::int64_t first, std::int64_t last,
                                           std::int64_t panel, std::int64_t token) {
  tile<V, bits, groups, min, V::vectors, V::tokens, fresh>(job, from, first, last, panel, token);
}

// Codes of 5 and 6 bits: those of 4 are read with one or two instructions, those of 8 with none.
template <class V, int bits>
constexpr bool opens = V::opens && (bits == 5 || bits == 6);

// Panels that are opened pay from so many tokens on, and stay in the first cache, beside what is read of the tokens.
constexpr std::int64_t open_tokens = 16;
constexpr std::int64_t open_bytes = 20480;

// The first `tokens`, a multiple of V::tokens, with V::vectors panels that are all there. What is too long for the
// cache is opened and multiplied in parts, with the sums of the parts before in y.
template <class V, int bits, int groups, bool min>
void open_panels(const PackedJob& job, std::int64_t panel, std::int64_t tokens) {
  using Open = Opened<V, V::vectors, bits, groups, min>;
  constexpr std::int64_t most = open_bytes / Open::block_bytes;
  alignas(64) std::array<std::byte, most * Open::block_bytes> opened;
  const std::int64_t blocks = job.w->cols / packed_block;
  const std::int64_t next = job.w->panel_bytes();
  const std::int64_t parts = (blocks + most - 1) / most;
  Packed<V, V::vectors, bits, groups, min> from{.at = job.w->data.get() + panel * next, .next = next};
  std::int64_t first = 0;
  for (std::int64_t part = 1; part <= parts; ++part) {
    const std::int64_t last = blocks * part / parts;
    Open::open(from, last - first, opened.data());
    const auto tile_of =
        part == 1 ? opened_tile<V, bits, groups, min, true, Open> : opened_tile<V, bits, groups, min, false, Open>;
    for (std::int64_t token = 0; token < tokens; token += V::tokens)
      tile_of(job, Open{opened.data()}, first, last, panel, token);
    from.at += (last - first) * from.block_bytes;
    first = last;
  }
}

// All tokens from `token` on, in tiles of T as long as there are so many, then of fewer: of each number with one panel
// a vector, of each power of two with two panels, whose code is long.
template <class V, int bits, int groups, bool min, int T>
void all_tokens(const PackedJob& job, std::int64_t panel, std::int64_t token) {
  for (; token + T <= job.tokens; token += T) tile<V, bits, groups, min, 1, T>(job, panel, token);
  if constexpr (T > 1)
    if (token < job.tokens) all_tokens<V, bits, groups, min, V::panels == 1 ? T - 1 : T / 2>(job, panel, token);
}

template <int bits, int groups, bool min, class Last, class V>
void panels_of(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  // Two vectors share what is loaded of the tokens; where a tile of all its tokens is not full, one will do.
  if constexpr (V::vectors > 1) {
    constexpr std::int64_t both = V::vectors * V::panels;
    const std::int64_t whole = job.w->choice.vectors > 1 ? job.tokens / V::tokens * V::tokens : 0;
    for (; whole > 0 && begin + both <= end; begin += both) {
      if (opens<V, bits> && whole >= open_tokens && (begin + both) * packed_rows <= job.w->rows) {
        if constexpr (opens<V, bits>) open_panels<V, bits, groups, min>(job, begin, whole);
      } else {
        for (std::int64_t token = 0; token < whole; token += V::tokens)
          tile<V, bits, groups, min, V::vectors, V::tokens>(job, begin, token);
      }
      for (std::int64_t i = 0; whole < job.tokens && i < both; i += V::panels)
        all_tokens<V, bits, groups, min, V::tokens - 1>(job, begin + i, whole);
    }
  }
  for (; begin + V::panels <= end; begin += V::panels) all_tokens<V, bits, groups, min, V::tokens>(job, begin, 0);
  if constexpr (V::panels > 1)
    if (begin < end) all_tokens<Last, bits, groups, min, Last::tokens>(job, begin, 0);
}

// Whether any format has such panels: only those are compiled.
constexpr bool packed_kind_exists(int wanted_bits, int wanted_groups, bool wanted_min) {
#define KNAP_LEVELS(id, bits, group, zero) \
  if (wanted_bits == (bits) && wanted_groups == packed_block / (group) && wanted_min == ((zero) < 0)) return true;
#include "tensor/levels.inc"
#undef KNAP_LEVELS
  return false;
}

using PanelsFn = void (*)(const PackedJob& job, std::int64_t begin, std::int64_t end);

template <class V, class Last, int bits, int groups, bool min>
constexpr PanelsFn panels_for() {
  if constexpr (packed_kind_exists(bits, groups, min)) {
    return panels_of<bits, groups, min, Last, V>;
  } else {
    return nullptr;
  }
}

template <class V, class Last, int bits>
constexpr std::array<PanelsFn, 4> panels_by_kind() {
  return {panels_for<V, Last, bits, 1, false>(), panels_for<V, Last, bits, 1, true>(),
          panels_for<V, Last, bits, 2, false>(), panels_for<V, Last, bits, 2, true>()};
}

// V for as many panels as it takes at once, Last for one that is left over.
template <class V, class Last>
void panels(const PackedJob& job, std::int64_t begin, std::int64_t end) {
  static constexpr std::array table = {panels_by_kind<V, Last, 4>(), panels_by_kind<V, Last, 5>(),
                                       panels_by_kind<V, Last, 6>(), panels_by_kind<V, Last, 8>()};
  const PackedKind& kind = job.w->kind;
  const auto row = static_cast<std::size_t>(kind.bits == 8 ? 3 : kind.bits - 4);
  table[row][2 * static_cast<std::size_t>(kind.groups - 1) + (kind.min ? 1U : 0U)](job, begin, end);
}

KNAP_INLINE int lane_sum_int(__m256i v) {
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}

// `based`: for 8-bit codes, what sums of dot() begin with is written, too.
template <bool based>
void round(const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  const int factor = kind.side_factor();
  for (std::int64_t b = 0; b < cols / packed_block; ++b, x += packed_block) {
    __m256 in[4];
    __m256 most = _mm256_setzero_ps();
    __m256 odd = _mm256_setzero_ps();  // NaN where an x is no finite number
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      in[i] = _mm256_loadu_ps(x + 8 * i);
      most = _mm256_max_ps(most, _mm256_andnot_ps(sign, in[i]));
      odd = _mm256_add_ps(odd, _mm256_sub_ps(in[i], in[i]));
    }
    const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(odd, odd, _CMP_UNORD_Q)) == 0;
    const float largest = lane_max(most);
    float inverse = finite && largest > 0 ? 127.0F / largest : 0.0F;
    if (inverse > std::numeric_limits<float>::max()) inverse = 0;
    const float d = !finite ? std::numeric_limits<float>::quiet_NaN() : inverse > 0 ? largest / 127.0F : 0.0F;
    if (!finite) in[0] = in[1] = in[2] = in[3] = _mm256_setzero_ps();
    const __m256 by = _mm256_set1_ps(inverse);
    __m256i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(in[i], by));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q + b * packed_block),
                        _mm256_permutevar8x32_epi32(bytes, order));
    out.d[b] = d;
    const std::array<int, 2> half = {lane_sum_int(_mm256_add_epi32(q[0], q[1])),
                                     lane_sum_int(_mm256_add_epi32(q[2], q[3]))};
    for (int g = 0; g < kind.groups; ++g) {
      const int sum = kind.groups == 1 ? half[0] + half[1] : half[static_cast<std::size_t>(g)];
      out.side[b * kind.groups + g] = static_cast<float>(factor * sum) * d;
      if constexpr (based)
        if (kind.bits == 8) out.base[b * kind.groups + g] = -128 * sum;
    }
  }
}

}  // namespace
}  // namespace knapsack
