// Integer products: weights repacked into panels, activations rounded to 8 bits. Runs instead of the float products of
// matmul.h where a format has levels (tensor/levels.inc) and speed is asked for. Not exact: what it computes is this.
//
// Activations: each row is cut into blocks of 32. With m the largest magnitude of a block, d = m / 127 and q = x *
// (127 / m) rounded to the nearest integer, ties to even (0 where m is 0; d is NaN where an x is no finite number).
// A weight is scale * (code - zero), or scale * code + min; a scale and a min serve a group of 16 or 32 columns.
// y starts at 0; then block by block, group by group, with one rounding each:
//   zero: y = fma(fma(sum of q * code, d, float(-zero * sum of q) * d), scale, y)
//   min:  y = fma(float(sum of q * code) * d, scale, y), y = fma(float(sum of q) * d, min, y)
// and the bias is added, then the residual. The sums are of integers, so every instruction set gives the same bits, for
// any number of tokens and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "kernels/kernel.h"
#include "tensor/weight.h"

namespace knapsack {

inline constexpr std::int64_t packed_rows = 8;    // of a panel
inline constexpr std::int64_t packed_block = 32;  // columns that share an activation scale

// How a panel holds its blocks. A block is its codes, the f16 scales (8 rows x groups), then the f16 mins if it has
// any. Codes come in eight vectors of 8 rows x 4 columns, vector v holding columns 4v..4v+3 of each row in turn: 8
// bits: 8 x 32 signed bytes. 4 bits: 4 x 32 bytes, vector v in the low nibbles and vector v + 4 in the high ones. 5
// bits: those, then 32 bytes, bit v of which is the fifth bit of vector v. 6 bits: the nibbles, then 2 x 32 bytes, bits
// 2(v%4) and up of byte-vector v/4 being the upper two bits of vector v.
struct PackedKind {
  int bits = 4;
  int groups = 1;  // a block: 1 of 32 columns, or 2 of 16
  bool min = false;
  int zero = 0;
  [[nodiscard]] constexpr std::int64_t code_bytes() const { return packed_rows * packed_block * bits / 8; }
  [[nodiscard]] constexpr std::int64_t block_bytes() const {
    return code_bytes() + packed_rows * 2 * groups * (min ? 2 : 1);
  }
  // What the sums of q are multiplied with, beside d.
  [[nodiscard]] constexpr int side_factor() const { return min ? 1 : -zero; }
};

// What may be chosen of how a matrix is multiplied (choices.h); the result has the same bits for any of it.
struct PackedChoice {
  std::int64_t ahead = 0;        // one token: bytes that weights are fetched ahead of their use; 0: the processor's own
  std::int64_t pieces_one = 1;   // one token, and many: pieces a thread at most that a product is cut into, for others
  std::int64_t pieces_many = 1;  // to take when it is held up
  std::int64_t vectors = 1;      // many tokens: at most so many vectors of panels share what is loaded of the tokens
  std::int64_t tiles = 16;       // many tokens: the fewest for which AMX's tiles are used
};

// One matrix [rows, cols]; rows are filled up to whole panels with zeros.
struct PackedMatrix {
  PackedKind kind;
  PackedChoice choice{};
  std::int64_t rows = 0, cols = 0;
  std::shared_ptr<std::byte[]> data;  // its own, or a part of what several share
  [[nodiscard]] std::int64_t panels() const { return (rows + packed_rows - 1) / packed_rows; }
  [[nodiscard]] std::int64_t panel_bytes() const { return cols / packed_block * kind.block_bytes(); }
  [[nodiscard]] std::int64_t bytes() const { return panels() * panel_bytes(); }
};

// The kind that a format is packed as; absent: it has no levels.
std::optional<PackedKind> packed_kind(DType dtype);
// The size of the packed form of a matrix, or of all experts' matrices; 0: there is none.
std::int64_t packed_bytes(const Weight& weight);

// Rounded activations of `tokens` rows, in memory of the caller's.
struct PackedInput {
  std::int8_t* q = nullptr;  // [tokens, cols]
  float* d = nullptr;        // [tokens, cols / 32]
  float* side = nullptr;     // [tokens, cols / 32 * groups]: float(side_factor * sum of q) * d
  // [tokens, cols / 32 * groups]: -128 * sum of q, what the sums begin with where signed bytes are multiplied as
  // unsigned ones, 128 more. There for kinds of 8 bits; written and read by those tables that multiply so.
  std::int32_t* base = nullptr;
};

struct PackedJob {
  const PackedMatrix* w = nullptr;
  PackedInput x;
  float* y = nullptr;  // [tokens, rows]
  std::int64_t y_stride = 0;
  std::int64_t tokens = 0;
  const float* bias = nullptr;
  const float* residual = nullptr;  // [tokens, rows], rows y_stride apart as y's; does not overlap y
};

// The packed form of a model's weights, by the weight they were made from. Made before a program runs, then only read.
class PackedWeights {
 public:
  // `packed`: the matrix, or that of each expert.
  void add(const Weight* weight, std::vector<PackedMatrix> packed) {
    for (const PackedMatrix& matrix : packed) bytes_ += matrix.bytes();
    map_.insert_or_assign(weight, std::move(packed));
  }
  // The first of them; null: none.
  [[nodiscard]] const PackedMatrix* find(const Weight* weight) const {
    const auto at = map_.find(weight);
    return at == map_.end() ? nullptr : at->second.data();
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

  // Weights left in the file that they are mapped from, for want of memory.
  void leave(const Weight* weight) { left_.push_back(weight); }
  [[nodiscard]] std::span<const Weight* const> left() const { return left_; }

 private:
  std::unordered_map<const Weight*, std::vector<PackedMatrix>> map_;
  std::vector<const Weight*> left_;
  std::int64_t bytes_ = 0;
};

// The definition of PackedTable::store.
bool store_panel(const PackedKind& kind, const Levels& rows, std::int64_t cols, std::byte* panel);

// The per-thread pieces, by ISA.
struct PackedTable {
  // A panel from the levels of its 8 rows, [8, cols]. False where f16 cannot hold a scale or min.
  bool (*store)(const PackedKind& kind, const Levels& rows, std::int64_t cols, std::byte* panel) = store_panel;
  // One row of activations; out is that row's.
  void (*round)(const float* x, std::int64_t cols, const PackedKind& kind, const PackedInput& out);
  // All tokens of panels [begin, end).
  void (*panels)(const PackedJob& job, std::int64_t begin, std::int64_t end);
  // Panels that `panels` multiplies at once with many tokens: threads take multiples of them.
  std::int64_t at_once = 1;
  // What of PackedChoice makes a difference to `panels`.
  bool fetches = false, two_vectors = false, tiles = false;
};
const PackedTable& scalar_packed();

// Null when the matrix cannot be packed: no levels, columns that are no multiple of 32, or a scale or min that f16
// cannot hold (those of K formats are products, and are rounded to f16 here). `place`: where it goes, enough for its
// bytes; null: memory of its own. The pool's threads write it first. `read`: told of the rows that are packed, some
// MiB at a time, by the calling thread. Throws bad_alloc.
std::unique_ptr<PackedMatrix> pack(const PackedTable& table, DType dtype, const std::byte* w, std::int64_t rows,
                                   std::int64_t cols, ThreadPool& pool, std::shared_ptr<std::byte[]> place = nullptr,
                                   const std::function<void(std::span<const std::byte>)>& read = {});

// What a thread's share of packed_matmul() with these weights begins with: `most` bytes, or fewer.
std::span<const std::byte> packed_share(std::span<const PackedMatrix* const> weights, int thread, int threads,
                                        std::int64_t most);

// All jobs in one parallel region.
void packed_matmul(const PackedTable& table, std::span<const PackedJob> jobs, ThreadPool& pool);

}  // namespace knapsack
