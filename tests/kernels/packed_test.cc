// Integer products: the scalar definition against plain arithmetic, every instruction set against the scalar one, bit
// by bit, for any number of tokens and threads.
#include "kernels/packed.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/call.h"
#include "kernels/choices.h"
#include "kernels/native.h"
#include "kernels/random_weight.h"
#include "kernels/ref/ref.h"

namespace knapsack {

// The sources of wider sets, compiled for AVX2 through SIMDe (tests/CMakeLists.txt).
const PackedTable& simde_avxvnni_packed();
const PackedTable& simde_avx512_packed();
const PackedTable& simde_avx512vnni_packed();
const PackedTable& simde_amx_packed();

namespace {

std::vector<const PackedTable*> tables() {
  std::vector<const PackedTable*> all;
  for (const Isa isa : supported_isas()) all.push_back(&packed_table(isa));
#if defined(KNAPSACK_SIMDE)
  if (all.size() > 1)
    for (const auto table : {simde_avxvnni_packed, simde_avx512_packed, simde_avx512vnni_packed, simde_amx_packed})
      all.push_back(&table());
#endif
  return all;
}

struct Rounded {
  std::vector<std::int8_t> q;
  std::vector<float> d, side;
  std::vector<std::int32_t> base;
  PackedInput input;
};

Rounded round_all(const PackedTable& table, const PackedKind& kind, const std::vector<float>& x, std::int64_t cols) {
  const auto tokens = static_cast<std::int64_t>(x.size()) / cols;
  const std::int64_t blocks = cols / packed_block;
  Rounded out;
  out.q.resize(x.size());
  out.d.resize(static_cast<std::size_t>(tokens * blocks));
  out.side.resize(static_cast<std::size_t>(tokens * blocks * kind.groups));
  if (kind.bits == 8) out.base.assign(out.side.size(), -1);
  out.input = {.q = out.q.data(), .d = out.d.data(), .side = out.side.data(), .base = out.base.data()};
  for (std::int64_t t = 0; t < tokens; ++t)
    table.round(x.data() + t * cols, cols, kind,
                {.q = out.input.q + t * cols,
                 .d = out.input.d + t * blocks,
                 .side = out.input.side + t * blocks * kind.groups,
                 .base = out.base.empty() ? nullptr : out.input.base + t * blocks * kind.groups});
  return out;
}

std::vector<float> multiply(const PackedTable& table, const PackedMatrix& w, const Rounded& x, std::int64_t first,
                            std::int64_t tokens, const float* bias, int threads, const float* residual = nullptr) {
  const std::int64_t blocks = w.cols / packed_block;
  std::vector<float> y(static_cast<std::size_t>(tokens * w.rows), NAN);
  const PackedJob job{.w = &w,
                      .x = {.q = x.input.q + first * w.cols,
                            .d = x.input.d + first * blocks,
                            .side = x.input.side + first * blocks * w.kind.groups,
                            .base = x.base.empty() ? nullptr : x.input.base + first * blocks * w.kind.groups},
                      .y = y.data(),
                      .y_stride = w.rows,
                      .tokens = tokens,
                      .bias = bias,
                      .residual = residual};
  ThreadPool pool(threads);
  packed_matmul(table, {&job, 1}, pool);
  return y;
}

void expect_same(const std::vector<float>& got, const float* want) {
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i])) << "element " << i;
}

// Ways that matter to one table or another.
constexpr std::array choices{
    PackedChoice{.ahead = 1536, .pieces_one = 8, .pieces_many = 8, .vectors = 2, .tiles = 16},
    PackedChoice{.ahead = 0, .pieces_one = 1, .pieces_many = 3, .vectors = 1, .tiles = 32},
};

void check(DType dtype, std::int64_t rows, std::int64_t cols) {
  SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(rows) + "x" + std::to_string(cols));
  constexpr std::int64_t most = 35;  // AMX takes 16 at a time, others up to 8
  const testing::RandomMatrix w(dtype, rows, cols, 5);
  ThreadPool pool(2);
  const auto packed = pack(scalar_packed(), dtype, w.data(), rows, cols, pool);
  ASSERT_NE(packed, nullptr);
  for (const PackedTable* table : tables()) {
    const auto again = pack(*table, dtype, w.data(), rows, cols, pool);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(std::memcmp(again->data.get(), packed->data.get(), static_cast<std::size_t>(packed->bytes())), 0);
  }
  const auto x = testing::random_floats(most * cols, 6);
  const auto bias = testing::random_floats(rows, 7);
  const Rounded scalar = round_all(scalar_packed(), packed->kind, x, cols);
  const auto y = multiply(scalar_packed(), *packed, scalar, 0, most, bias.data(), 1);

  // Against float weights and float activations: off by what rounding x to 8 bits (and scales to f16) may cost.
  for (std::int64_t t = 0; t < most; ++t)
    for (std::int64_t r = 0; r < rows; ++r) {
      double want = bias[static_cast<std::size_t>(r)];
      double room = 1e-5;
      for (std::int64_t c = 0; c < cols; ++c) {
        const double value = w.value(r, c);
        want += value * x[static_cast<std::size_t>(t * cols + c)];
        room += std::fabs(value) * scalar.d[static_cast<std::size_t>((t * cols + c) / packed_block)] * 0.501;
        // A scale or a min that was rounded to f16: half a unit of 11 bits, of a value that may be a difference of
        // both.
        room += std::fabs(x[static_cast<std::size_t>(t * cols + c)]) * 0x1p-11 * 40 * std::fabs(value);
      }
      ASSERT_NEAR(y[static_cast<std::size_t>(t * rows + r)], want, room + 0.02 * std::fabs(want)) << t << " " << r;
    }

  for (const PackedTable* table : tables()) {
    const Rounded mine = round_all(*table, packed->kind, x, cols);
    EXPECT_EQ(mine.q, scalar.q);
    expect_same(mine.d, scalar.d.data());
    expect_same(mine.side, scalar.side.data());
    for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 19, 35})
      for (const int threads : {1, 3}) {
        const std::int64_t first = (most - tokens) / 2;
        packed->choice = choices[static_cast<std::size_t>(threads / 2)];
        expect_same(multiply(*table, *packed, mine, first, tokens, bias.data(), threads), y.data() + first * rows);
        if (::testing::Test::HasFatalFailure()) return;
      }
    // A residual is added to the finished product.
    for (const std::int64_t tokens : {1, 19}) {
      const std::int64_t first = most - tokens;
      const auto residual = testing::random_floats(tokens * rows, 8);
      std::vector<float> want(y.begin() + first * rows, y.end());
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += residual[i];
      expect_same(multiply(*table, *packed, mine, first, tokens, bias.data(), 2, residual.data()), want.data());
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Packed, EveryFormatOnEveryIsaForAnyTokensAndThreads) {
  int formats = 0;
  for (const FormatInfo& f : all_formats()) {
    if (!packed_kind(f.dtype)) continue;
    ++formats;
    check(f.dtype, 13, 256);
    check(f.dtype, 21, 768);
    check(f.dtype, 3, std::max<std::int64_t>(f.block, 32));
    if (f.level_bits == 5 || f.level_bits == 6) check(f.dtype, 21, 1536);  // AVX2 opens such panels in two parts
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(formats, 17);
}

// AMX multiplies four panels at once and cuts columns into pieces; the last panel here is not full.
TEST(Packed, MorePanelsThanAreMultipliedAtOnce) {
  for (const DType dtype : {DType::Q4_0, DType::Q4_1, DType::Q2_K, DType::Q6_K, DType::Q8_0}) {
    check(dtype, 61, 512);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Codes and activations at the ends of their ranges: no sum of products may wrap or saturate.
TEST(Packed, ExtremesDoNotOverflow) {
  ThreadPool pool(1);
  for (const DType dtype :
       {DType::Q4_0, DType::Q5_0, DType::Q6_K, DType::Q8_0, DType::Q2_K, DType::Q4_K, DType::Q5_K}) {
    const FormatInfo& f = format(dtype);
    constexpr std::int64_t rows = 8;
    constexpr std::int64_t cols = 512;
    for (const std::uint8_t fill : std::initializer_list<std::uint8_t>{0x00, 0x7f, 0x80, 0xff}) {
      SCOPED_TRACE(std::string(f.name) + " " + std::to_string(fill));
      std::vector<std::byte> w(static_cast<std::size_t>(rows * row_bytes(dtype, cols)), std::byte{fill});
      const std::uint16_t one = 0x2c00;  // 1/16 as f16
      for (std::size_t b = 0; b < w.size(); b += static_cast<std::size_t>(f.block_bytes)) {
        if (dtype == DType::Q6_K) std::memcpy(&w[b + 208], &one, 2);
        if (dtype == DType::Q2_K) std::memcpy(&w[b + 80], &one, 2), std::memcpy(&w[b + 82], &one, 2);
        if (dtype != DType::Q6_K && dtype != DType::Q2_K) std::memcpy(&w[b], &one, 2);
        if (dtype == DType::Q4_K || dtype == DType::Q5_K) std::memcpy(&w[b + 2], &one, 2);
      }
      const auto packed = pack(scalar_packed(), dtype, w.data(), rows, cols, pool);
      ASSERT_NE(packed, nullptr);
      packed->choice = choices[0];
      for (const float value : {1.0F, -1.0F}) {
        const std::vector<float> x(static_cast<std::size_t>(5 * cols), value);
        const Rounded rounded = round_all(scalar_packed(), packed->kind, x, cols);
        const auto want = multiply(scalar_packed(), *packed, rounded, 0, 5, nullptr, 1);
        for (const PackedTable* table : tables())
          expect_same(multiply(*table, *packed, round_all(*table, packed->kind, x, cols), 0, 5, nullptr, 1),
                      want.data());
      }
    }
  }
}

// tokens, threads and choices vary together above; here each choice alone.
TEST(Packed, NoChoiceChangesABit) {
  constexpr std::int64_t rows = 29;
  constexpr std::int64_t cols = 512;
  constexpr std::int64_t tokens = 35;
  ThreadPool pool(1);
  for (const DType dtype : {DType::Q4_0, DType::Q2_K, DType::Q6_K, DType::Q8_0}) {
    const testing::RandomMatrix w(dtype, rows, cols, 5);
    const auto packed = pack(scalar_packed(), dtype, w.data(), rows, cols, pool);
    const auto x = testing::random_floats(tokens * cols, 6);
    const auto y =
        multiply(scalar_packed(), *packed, round_all(scalar_packed(), packed->kind, x, cols), 0, tokens, nullptr, 1);
    for (const PackedTable* table : tables()) {
      const Rounded mine = round_all(*table, packed->kind, x, cols);
      for (const ChoiceInfo& info : all_choices())
        for (const std::int64_t value : info.candidates) {
          SCOPED_TRACE(std::string(info.name) + " " + std::to_string(value));
          packed->choice = choices[0];
          packed->choice.*info.value = value;
          expect_same(multiply(*table, *packed, mine, 0, tokens, nullptr, 2), y.data());
          expect_same(multiply(*table, *packed, mine, 3, 1, nullptr, 2), y.data() + 3 * rows);
          if (::testing::Test::HasFatalFailure()) return;
        }
    }
  }
}

TEST(Packed, ZerosTiniesAndNonFiniteActivations) {
  constexpr std::int64_t cols = 64;
  const PackedKind kind{.bits = 4, .groups = 2, .zero = 8};
  for (const float value : {0.0F, 1e-45F, 1e-38F, 1e-30F, 3e38F, INFINITY, -INFINITY, std::nanf("")}) {
    SCOPED_TRACE(value);
    std::vector<float> x(cols, 0.0F);
    x[37] = value;
    const Rounded want = round_all(scalar_packed(), kind, x, cols);
    EXPECT_EQ(want.d[0], 0.0F);
    EXPECT_EQ(std::isnan(want.d[1]), !std::isfinite(value));
    if (std::isfinite(value) && value >= 1e-30F) {
      EXPECT_EQ(want.q[37], 127);
    }
    for (const PackedTable* table : tables()) {
      const Rounded got = round_all(*table, kind, x, cols);
      EXPECT_EQ(got.q, want.q);
      for (std::size_t i = 0; i < want.d.size(); ++i)
        EXPECT_TRUE(got.d[i] == want.d[i] || (std::isnan(got.d[i]) && std::isnan(want.d[i])));
      for (std::size_t i = 0; i < want.side.size(); ++i)
        EXPECT_TRUE(got.side[i] == want.side[i] || (std::isnan(got.side[i]) && std::isnan(want.side[i])));
    }
  }
}

TEST(Packed, WhatF16CannotHoldIsNotPacked) {
  ThreadPool pool(1);
  // Q4_K: d = 65504 times a scale of 63.
  std::vector<std::byte> w(static_cast<std::size_t>(8 * 144), std::byte{0xff});
  for (std::size_t b = 0; b < w.size(); b += 144) {
    const std::uint16_t largest = 0x7bff;
    std::memcpy(&w[b], &largest, 2);
    std::memcpy(&w[b + 2], &largest, 2);
  }
  for (const PackedTable* table : tables()) EXPECT_EQ(pack(*table, DType::Q4_K, w.data(), 8, 256, pool), nullptr);
  EXPECT_EQ(pack(scalar_packed(), DType::F16, w.data(), 1, 32, pool), nullptr);
}

// A sum made with the product it adds to has the bits of one made after it, whichever of its terms the product is; the
// product itself is not written.
TEST(Packed, AnAddTogetherWithItsProduct) {
  constexpr std::int64_t tokens = 5;
  constexpr std::int64_t rows = 21;
  constexpr std::int64_t cols = 96;
  ThreadPool pool(2);
  auto x = testing::random_floats(tokens * cols, 21);
  auto other = testing::random_floats(tokens * rows, 22);
  const auto bias = testing::random_floats(rows, 23);
  const Weight bias_weight = testing::vector_weight(bias);
  const testing::RandomMatrix w(DType::Q5_1, rows, cols, 24);
  Weight weight{.name = "w", .dtype = DType::Q5_1, .shape = {rows, cols}, .slabs = {w.data()}};
  const auto operand = [](std::vector<float>& values, std::int64_t width) {
    return Operand{.data = reinterpret_cast<std::byte*>(values.data()), .rows = tokens, .cols = width};
  };
  for (const Isa isa : supported_isas())
    for (const bool integers : {false, true}) {
      SCOPED_TRACE(std::string(isa_name(isa)) + (integers ? " integers" : " floats"));
      const auto packed = pack(packed_table(isa), DType::Q5_1, w.data(), rows, cols, pool);
      std::vector<float> product(other.size(), NAN), sum(other.size(), NAN), unwritten(other.size(), NAN);
      const std::array<Operand, 3> in{operand(x, cols),
                                      Operand{.weight = &weight, .packed = integers ? packed.get() : nullptr},
                                      Operand{.weight = &bias_weight}};
      const Operand out = operand(product, rows);
      OpCall call{.in = in, .out = {&out, 1}, .pool = &pool};
      std::vector<std::byte> memory(ref::linear_scratch(call, 0, pool.size()) + 64);
      void* at = memory.data();
      std::size_t room = memory.size();
      call.scratch = {static_cast<std::byte*>(std::align(64, memory.size() - 64, at, room)), memory.size() - 64};
      ref::linear(call, matmul_table(isa), packed_table(isa));
      for (const bool first : {false, true}) {
        std::array<Operand, 2> terms{operand(other, rows), operand(product, rows)};
        if (first) std::swap(terms[0], terms[1]);
        const Operand sum_out = operand(sum, rows);
        const OpCall add{.in = terms, .out = {&sum_out, 1}, .pool = &pool};
        EXPECT_TRUE(ref::linear_adds(call, add));
        KernelTable::get(isa)[Op::add].run(add);
        std::vector<float> together(other.size(), NAN);
        const Operand unwritten_out = operand(unwritten, rows);
        const Operand together_out = operand(together, rows);
        terms[first ? 0 : 1] = unwritten_out;
        const OpCall again{.in = in, .out = {&unwritten_out, 1}, .pool = &pool, .scratch = call.scratch};
        const OpCall after{.in = terms, .out = {&together_out, 1}, .pool = &pool};
        ref::linear_group({.calls = {&again, 1}, .after = &after}, matmul_table(isa), packed_table(isa));
        expect_same(together, sum.data());
        EXPECT_TRUE(std::isnan(unwritten[0]));
        // Floats are read while sums are written.
        Operand over = operand(x, rows);
        EXPECT_EQ(ref::linear_adds(call, {.in = terms, .out = {&over, 1}}), integers);
      }
    }
}

// Each head's columns are rounded and multiplied by its own matrix, as a product by itself would.
TEST(Packed, HeadsAreProductsOfTheirOwn) {
  constexpr std::int64_t heads = 3;
  constexpr std::int64_t rows = 11;
  constexpr std::int64_t cols = 64;
  constexpr std::int64_t stride = 70;
  constexpr std::int64_t offset = 4;
  constexpr std::int64_t tokens = 5;
  const auto x = testing::random_floats(tokens * heads * stride, 31);
  const testing::RandomMatrix w(DType::Q8_0, heads * rows, cols, 32);
  const Weight weight{.name = "w", .dtype = DType::Q8_0, .shape = {heads * rows, cols}, .slabs = {w.data()}};
  Attrs attrs;
  attrs.set(Attr::heads, heads).set(Attr::in_stride, stride).set(Attr::in_offset, offset).set(Attr::head_rows, rows);
  attrs.set(Attr::row_offset, 0).set(Attr::rows, rows).set(Attr::transposed, 0);
  for (const Isa isa : supported_isas())
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(isa_name(isa));
      ThreadPool pool(threads);
      const PackedTable& table = packed_table(isa);
      std::vector<PackedMatrix> packed;
      for (std::int64_t h = 0; h < heads; ++h)
        packed.push_back(
            *pack(table, DType::Q8_0, w.data() + h * rows * row_bytes(DType::Q8_0, cols), rows, cols, pool));
      testing::Call call(Op::head_linear, tokens, attrs);
      const auto y =
          call.activation(x.data(), heads * stride).weight(weight, packed.data()).run(isa, pool, heads * rows);
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<float> of_head;
        for (std::int64_t t = 0; t < tokens; ++t) {
          const auto from = x.begin() + (t * heads + h) * stride + offset;
          of_head.insert(of_head.end(), from, from + cols);
        }
        const PackedMatrix& matrix = packed[static_cast<std::size_t>(h)];
        const auto alone = multiply(scalar_packed(), matrix, round_all(scalar_packed(), matrix.kind, of_head, cols), 0,
                                    tokens, nullptr, 1);
        for (std::int64_t t = 0; t < tokens; ++t)
          expect_same({y.begin() + (t * heads + h) * rows, y.begin() + (t * heads + h + 1) * rows},
                      alone.data() + t * rows);
      }
    }
}

// Linear ops on one input run together give what each gives alone.
TEST(Packed, LinearOpsTogether) {
  constexpr std::int64_t tokens = 5;
  constexpr std::int64_t cols = 96;
  ThreadPool pool(2);
  const auto x = testing::random_floats(tokens * cols, 11);
  const auto bias = testing::random_floats(24, 12);
  const Weight bias_weight = testing::vector_weight(bias);
  const testing::RandomMatrix wide(DType::Q4_0, 24, cols, 13), narrow(DType::Q4_0, 7, cols, 14);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const PackedTable& table = packed_table(isa);
    const auto first = pack(table, DType::Q4_0, wide.data(), 24, cols, pool);
    const auto second = pack(table, DType::Q4_0, narrow.data(), 7, cols, pool);
    std::vector<float> alone(tokens * (24 + 7), NAN), together(tokens * (24 + 7), NAN);
    std::vector<std::byte> memory(1 << 14);
    void* at = memory.data();
    std::size_t room = memory.size();
    const std::span<std::byte> scratch(static_cast<std::byte*>(std::align(64, 1 << 13, at, room)), 1 << 13);
    const Operand in{.data = reinterpret_cast<std::byte*>(const_cast<float*>(x.data())), .rows = tokens, .cols = cols};
    const std::array<Operand, 3> first_in{in, Operand{.packed = first.get()}, Operand{.weight = &bias_weight}};
    const std::array<Operand, 2> second_in{in, Operand{.packed = second.get()}};
    const auto calls = [&](std::vector<float>& y, std::array<Operand, 2>& out) {
      out[0] = {.data = reinterpret_cast<std::byte*>(y.data()), .rows = tokens, .cols = 24};
      out[1] = {.data = reinterpret_cast<std::byte*>(y.data() + tokens * 24), .rows = tokens, .cols = 7};
      return std::array{OpCall{.in = first_in, .out = {&out[0], 1}, .pool = &pool, .scratch = scratch},
                        OpCall{.in = second_in, .out = {&out[1], 1}, .pool = &pool, .scratch = scratch}};
    };
    std::array<Operand, 2> out_a, out_b;
    for (const OpCall& call : calls(alone, out_a)) ref::linear(call, matmul_table(isa), table);
    const auto both = calls(together, out_b);
    EXPECT_TRUE(ref::linear_joins(both[0], both[1]));
    ref::linear_group({.calls = both}, matmul_table(isa), table);
    expect_same(together, alone.data());

    // The input made row by row on the way: half of what `in` holds, by an op on a copy of twice as much.
    std::vector<float> twice(x);
    for (float& value : twice) value *= 2;
    std::vector<float> made(x.size(), NAN);
    const Operand made_in{.data = reinterpret_cast<std::byte*>(made.data()), .rows = tokens, .cols = cols};
    const Operand twice_in{.data = reinterpret_cast<std::byte*>(twice.data()), .rows = tokens, .cols = cols};
    Attrs attrs;
    attrs.set(Attr::scale, 0.5F);
    const OpCall halve{.in = {&twice_in, 1}, .out = {&made_in, 1}, .attrs = &attrs};
    auto later = both;
    const std::array<Operand, 3> first_later{made_in, first_in[1], first_in[2]};
    const std::array<Operand, 2> second_later{made_in, second_in[1]};
    later[0].in = first_later;
    later[1].in = second_later;
    std::fill(together.begin(), together.end(), NAN);
    const KernelFn half = KernelTable::get(isa)[Op::scale].run;
    ref::linear_group({.before = half, .before_call = &halve, .calls = later}, matmul_table(isa), table);
    expect_same(together, alone.data());
    expect_same(made, x.data());

    const testing::RandomMatrix other(DType::Q4_1, 8, cols, 15);
    const auto third = pack(table, DType::Q4_1, other.data(), 8, cols, pool);
    const std::array<Operand, 2> third_in{in, Operand{.packed = third.get()}};
    EXPECT_FALSE(ref::linear_joins(both[0], {.in = third_in}));  // its mins want other sums of the input
    const std::array<Operand, 2> floats{in, Operand{}};
    EXPECT_FALSE(ref::linear_joins(both[0], {.in = floats}));
    EXPECT_FALSE(ref::linear_joins({.in = floats}, both[0]));
  }
}

}  // namespace
}  // namespace knapsack
