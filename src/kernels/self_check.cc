#include "kernels/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/ref/ref.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

constexpr float unset = std::numeric_limits<float>::quiet_NaN();

// The same numbers in every run.
class Numbers {
 public:
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  float between(float low, float high) { return low + (high - low) * 0x1p-32F * static_cast<float>(next()); }
  std::vector<float> floats(std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& value : all) value = between(-1, 1);
    return all;
  }

 private:
  std::uint32_t state_ = 2463534242U;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Tiles of every width: two panels and one more, not full; as many tokens as AMX takes at once, and some that are left.
constexpr std::int64_t rows = 2 * packed_rows + 5;
constexpr std::int64_t cols = 3 * packed_block;
constexpr std::int64_t tokens = 16 + 3;

struct Input {
  std::vector<std::int8_t> q;
  std::vector<float> d, side;
  std::vector<std::int32_t> base;

  Input(const PackedTable& table, const PackedKind& kind, const std::vector<float>& x)
      : q(tokens * cols),
        d(tokens * cols / packed_block, unset),
        side(d.size() * static_cast<std::size_t>(kind.groups), unset),
        base(side.size()) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const PackedInput all = input(kind, t);
      table.round(x.data() + t * cols, cols, kind, all);
    }
  }
  // From token `t` on.
  PackedInput input(const PackedKind& kind, std::int64_t t) {
    const std::int64_t blocks = t * cols / packed_block;
    return {.q = q.data() + t * cols,
            .d = d.data() + blocks,
            .side = side.data() + blocks * kind.groups,
            .base = base.data() + blocks * kind.groups};
  }
};

// The panels of a matrix, or none where `store` says that they do not fit, which they do.
PackedMatrix panels_by(const PackedTable& table, const PackedKind& kind) {
  PackedMatrix w{.kind = kind, .choice = {.ahead = 1024, .vectors = 2}, .rows = rows, .cols = cols, .data = nullptr};
  const auto bytes = static_cast<std::size_t>(w.bytes());
  w.data = std::make_unique<std::byte[]>(bytes);
  Numbers numbers;
  constexpr std::size_t groups = packed_rows * cols / level_group;
  std::vector<std::uint8_t> codes(packed_rows * cols);
  std::vector<float> scales(groups), mins(groups);
  const auto mask = static_cast<std::uint8_t>((1U << kind.bits) - 1);
  for (std::int64_t panel = 0; panel < w.panels(); ++panel) {
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(numbers.next() >> 8) & mask;
    // A row of the largest codes and one of the smallest: sums that do not fit show there.
    std::fill_n(codes.begin(), cols, kind.bits == 8 ? std::uint8_t{0x80} : mask);
    std::fill_n(codes.begin() + cols, cols, kind.bits == 8 ? std::uint8_t{0x7f} : std::uint8_t{0});
    // What halves hold exactly.
    for (float& scale : scales) scale = half_to_float(float_to_half(numbers.between(0.01F, 0.1F)));
    for (float& min : mins) min = half_to_float(float_to_half(numbers.between(-1, 1)));
    const Levels levels{.codes = codes.data(), .scales = scales.data(), .mins = mins.data()};
    if (!table.store(kind, levels, cols, w.data.get() + panel * w.panel_bytes())) w.rows = 0;
  }
  return w;
}

std::vector<float> multiply(const PackedTable& table, const PackedMatrix& w, Input& x, std::int64_t first) {
  std::vector<float> y(static_cast<std::size_t>((tokens - first) * rows), unset);
  const PackedJob job{.w = &w, .x = x.input(w.kind, first), .y = y.data(), .y_stride = rows, .tokens = tokens - first};
  table.panels(job, 0, w.panels());
  return y;
}

std::string integer_difference(const PackedTable& table, const PackedKind& kind) {
  const std::string codes =
      fmt::format("{}-bit codes{}, {} a group", kind.bits, kind.min ? " with mins" : "", packed_block / kind.groups);
  const PackedTable& truth = scalar_packed();
  const PackedMatrix w = panels_by(truth, kind);
  const PackedMatrix mine = panels_by(table, kind);
  if (mine.rows != w.rows || std::memcmp(mine.data.get(), w.data.get(), static_cast<std::size_t>(w.bytes())) != 0)
    return "the packing of " + codes;
  std::vector<float> x = Numbers().floats(tokens * cols);
  std::fill_n(x.begin(), cols, 1.0F);
  std::fill_n(x.begin() + cols, cols, -1.0F);
  Input rounded(truth, kind, x);
  Input mine_rounded(table, kind, x);
  if (rounded.q != mine_rounded.q || !same_bits(rounded.d, mine_rounded.d) ||
      !same_bits(rounded.side, mine_rounded.side))
    return "the rounding of activations for " + codes;
  const std::vector<float> want = multiply(truth, w, rounded, 0);
  // All tokens, then one alone.
  for (const std::int64_t first : {std::int64_t{0}, tokens - 1}) {
    const std::vector<float> last(want.begin() + first * rows, want.end());
    if (!same_bits(multiply(table, w, mine_rounded, first), last)) return "integer products of " + codes;
  }
  return {};
}

std::vector<PackedKind> all_kinds() {
  std::vector<PackedKind> kinds;
  for (const FormatInfo& f : all_formats()) {
    const auto kind = packed_kind(f.dtype);
    const auto same = [&](const PackedKind& k) {
      return k.bits == kind->bits && k.groups == kind->groups && k.min == kind->min;
    };
    if (kind && std::none_of(kinds.begin(), kinds.end(), same)) kinds.push_back(*kind);
  }
  return kinds;
}

bool near(float got, float want, float room) { return std::fabs(got - want) <= room; }  // false for a NaN

std::string float_difference(const MatmulTable& table) {
  Numbers numbers;
  std::vector<std::uint16_t> halves(rows * cols);
  for (std::uint16_t& half : halves) half = float_to_half(numbers.between(-1, 1));
  const std::vector<float> x = numbers.floats(tokens * cols);
  for (const bool transposed : {false, true}) {
    const std::int64_t wide = transposed ? cols : rows;
    const std::int64_t deep = transposed ? rows : cols;
    MatmulJob job{.x = x.data(), .x_stride = deep, .y_stride = wide, .tokens = tokens, .dtype = DType::F16};
    job.w = reinterpret_cast<const std::byte*>(halves.data());
    job.rows = rows;
    job.cols = cols;
    job.transposed = transposed;
    const auto run = [&](const MatmulTable& by) {
      std::vector<float> y(static_cast<std::size_t>(tokens * wide), unset);
      job.y = y.data();
      constexpr std::size_t line = 16;  // floats of a cache line
      const std::size_t floats = matmul_scratch_bytes(tokens, cols, 1) / sizeof(float);
      std::vector<float> scratch(floats + line);
      const auto past = reinterpret_cast<std::uintptr_t>(scratch.data()) / sizeof(float) % line;
      (transposed ? by.columns : by.rows)(job, 0, wide, std::span(scratch).subspan((line - past) % line, floats));
      return y;
    };
    const std::vector<float> want = run(scalar_matmul());
    const std::vector<float> got = run(table);
    constexpr float room = 1e-5F * cols;  // products are below 1
    for (std::size_t i = 0; i < want.size(); ++i)
      if (!near(got[i], want[i], room)) return "products of floats";
  }
  return {};
}

std::string attention_difference(const Kernel& kernel) {
  constexpr std::int64_t count = 3;
  constexpr std::int64_t past = 17;
  constexpr std::int64_t heads = 2;
  constexpr std::int64_t head_dim = 32;
  constexpr std::int64_t page_tokens = 64;
  Numbers numbers;
  const std::vector<float> q = numbers.floats(count * heads * head_dim);
  std::vector<std::uint16_t> k(page_tokens * head_dim), v(page_tokens * head_dim);
  for (auto* state : {&k, &v})
    for (std::uint16_t& half : *state) half = float_to_half(numbers.between(-1, 1));
  const std::array pages{reinterpret_cast<std::byte*>(k.data()), reinterpret_cast<std::byte*>(v.data())};
  const auto view = [&](std::size_t i) {
    return StateView{.pages = std::span(pages).subspan(i, 1),
                     .pages_per_slot = 1,
                     .page_tokens = page_tokens,
                     .cols = head_dim,
                     .head_cols = head_dim};
  };
  const StateView keys = view(0);
  const StateView values = view(1);
  const auto operand = [](const float* data) {
    // Kernels do not write to what they read.
    return Operand{
        .data = reinterpret_cast<std::byte*>(const_cast<float*>(data)), .rows = count, .cols = heads * head_dim};
  };
  const std::array in{operand(q.data()), Operand{.cols = head_dim, .state = &keys},
                      Operand{.cols = head_dim, .state = &values}};
  const std::array<std::int32_t, count> positions{past, past + 1, past + 2};
  const std::array<std::int32_t, count> slots{};
  const RowInfo info{.positions = positions, .slots = slots};
  Attrs attrs;
  attrs.set(Attr::heads, heads).set(Attr::kv_heads, 1).set(Attr::head_dim, head_dim).set(Attr::scale, 0.2F);
  ThreadPool alone(1);
  const auto run = [&](KernelFn function, ScratchFn scratch_bytes) {
    std::vector<float> y(q.size(), unset);
    const Operand out = operand(y.data());
    OpCall call{.in = in, .out = {&out, 1}, .attrs = &attrs, .rows = &info, .pool = &alone};
    constexpr std::size_t align = 64;
    const std::size_t bytes = scratch_bytes(call, past + count, 1);
    std::vector<std::byte> scratch(bytes + align);
    const auto over = reinterpret_cast<std::uintptr_t>(scratch.data()) % align;
    call.scratch = std::span(scratch).subspan((align - over) % align, bytes);
    function(call);
    return y;
  };
  const std::vector<float> want = run(ref::attention, ref::attention_scratch);
  const std::vector<float> got = run(kernel.run, kernel.scratch_bytes);
  constexpr float room = 1e-3F;  // of values below 1
  for (std::size_t i = 0; i < want.size(); ++i)
    if (!near(got[i], want[i], room)) return "attention";
  return {};
}

}  // namespace

std::string first_difference(const PackedTable& packed, const MatmulTable& matmul, const Kernel& attention) {
  for (const PackedKind& kind : all_kinds())
    if (std::string difference = integer_difference(packed, kind); !difference.empty()) return difference;
  if (std::string difference = float_difference(matmul); !difference.empty()) return difference;
  return attention_difference(attention);
}

}  // namespace knapsack
