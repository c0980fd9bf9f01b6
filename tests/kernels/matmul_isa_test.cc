// The fast products: close to the scalar one, and the same bits for any number of tokens and threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <vector>

#include "kernels/call.h"
#include "kernels/matmul.h"
#include "kernels/native.h"
#include "kernels/random_weight.h"

namespace knapsack {

// The source of a wider set, compiled for AVX2 through SIMDe (tests/CMakeLists.txt).
const MatmulTable& simde_avx512_matmul();

namespace {

struct Fast {
  std::string_view name;
  const MatmulTable* table;
};

// Of what this CPU runs beside scalar, each table once, by the slowest set that has it.
std::vector<Fast> fast_tables() {
  std::vector<Fast> all{{isa_name(Isa::scalar), &scalar_matmul()}};
  for (const Isa isa : supported_isas()) {
    const MatmulTable* table = &matmul_table(isa);
    if (std::none_of(all.begin(), all.end(), [&](const Fast& fast) { return fast.table == table; }))
      all.push_back({isa_name(isa), table});
  }
  all.erase(all.begin());
#if defined(KNAPSACK_SIMDE)
  if (!all.empty()) all.push_back({"emulated avx512", &simde_avx512_matmul()});
#endif
  return all;
}

struct Shape {
  std::int64_t rows, cols;
};

std::vector<float> product(const MatmulTable& table, const MatmulJob& shape, const std::vector<float>& x,
                           std::int64_t first, std::int64_t tokens, ThreadPool& pool) {
  MatmulJob job = shape;
  const std::int64_t out = job.transposed ? job.cols : job.rows;
  std::vector<float> y(static_cast<std::size_t>(tokens * out), NAN);
  // As the executor gives it: aligned. Filled, so that a kernel that reads what it did not write shows.
  const std::size_t bytes = matmul_scratch_bytes(tokens, job.cols, pool.size());
  std::vector<float> scratch(bytes / sizeof(float) + 16, NAN);
  auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  job.x = x.data() + first * job.x_stride;
  job.y = y.data();
  job.y_stride = out;
  job.tokens = tokens;
  matmul(table, {&job, 1}, pool, {at, bytes});
  return y;
}

void check(const MatmulTable& table, DType dtype, Shape s, bool transposed) {
  SCOPED_TRACE(std::string(name(dtype)) + " [" + std::to_string(s.rows) + ", " + std::to_string(s.cols) +
               (transposed ? "] transposed" : "]"));
  constexpr std::int64_t most = 131;  // more than matmul_tokens, and no multiple of a tile
  const testing::RandomMatrix w(dtype, s.rows, s.cols, 11);
  const std::int64_t in = transposed ? s.rows : s.cols;
  const std::int64_t out = transposed ? s.cols : s.rows;
  const auto x = testing::random_floats(most * in, 12);
  const auto bias = testing::random_floats(out, 13);
  const MatmulJob job{.x_stride = in,
                      .dtype = dtype,
                      .w = w.data(),
                      .rows = s.rows,
                      .cols = s.cols,
                      .bias = transposed ? nullptr : bias.data(),
                      .transposed = transposed};
  ThreadPool one(1);
  const auto all = product(table, job, x, 0, most, one);

  // Fused sums differ from rounded ones by at most an ulp of each partial sum.
  const auto scalar = product(scalar_matmul(), job, x, 0, 4, one);
  for (std::int64_t t = 0; t < 4; ++t)
    for (std::int64_t o = 0; o < out; ++o) {
      double size = transposed ? 0 : std::fabs(bias[static_cast<std::size_t>(o)]);
      for (std::int64_t i = 0; i < in; ++i)
        size += std::fabs(static_cast<double>(x[static_cast<std::size_t>(t * in + i)]) *
                          w.value(transposed ? i : o, transposed ? o : i));
      const auto at = static_cast<std::size_t>(t * out + o);
      ASSERT_NEAR(all[at], scalar[at], size * 1e-6) << "token " << t << " output " << o;
    }

  // A residual is added to the finished product.
  for (const std::int64_t tokens : transposed ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1, 4, 7}) {
    const auto residual = testing::random_floats(tokens * out, 14);
    MatmulJob more = job;
    more.residual = residual.data();
    const auto sums = product(table, more, x, 0, tokens, one);
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], all[i] + residual[i]) << tokens << " " << i;
  }

  const std::int64_t single = testing::emulated() ? 5 : 17;
  for (const int threads : testing::thread_counts()) {
    ThreadPool pool(threads);
    for (std::int64_t tokens = 1; tokens <= most; tokens = tokens < single ? tokens + 1 : tokens + 111) {
      const std::int64_t first = (most - tokens) / 2;
      const auto some = product(table, job, x, first, tokens, pool);
      for (std::size_t i = 0; i < some.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(some[i]),
                  std::bit_cast<std::uint32_t>(all[static_cast<std::size_t>(first * out) + i]))
            << tokens << " tokens, " << threads << " threads, element " << i;
      if (threads > 1 && tokens > 4) break;
    }
  }
}

TEST(MatmulOfAnIsa, EveryFormatIsCloseToScalarAndTheSameForAnyTokensAndThreads) {
  for (const auto& [name, table] : fast_tables()) {
    SCOPED_TRACE(name);
    for (const FormatInfo& f : all_formats()) {
      if (f.block == 1) {
        for (const Shape s : {Shape{21, 83}, Shape{8, 3}, Shape{3, 1031}}) {
          check(*table, f.dtype, s, false);
          check(*table, f.dtype, s, true);
        }
      } else {
        check(*table, f.dtype, {21, 3 * f.block}, false);
        check(*table, f.dtype, {9, 5 * 256}, false);  // pieces of 512, 512 and 256 columns
        check(*table, f.dtype, {21, 3 * f.block}, true);
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// One column at a time is the weight itself, decoded in registers (one token) and through a panel (all of them).
TEST(MatmulOfAnIsa, WeightsAreDecodedToTheBit) {
  for (const auto& [name, table] : fast_tables()) {
    SCOPED_TRACE(name);
    for (const FormatInfo& f : all_formats()) {
      SCOPED_TRACE(f.name);
      constexpr std::int64_t rows = 5;
      constexpr std::int64_t cols = 256;
      const testing::RandomMatrix w(f.dtype, rows, cols, 17);
      std::vector<float> x(cols * cols, 0.0F);
      for (std::int64_t c = 0; c < cols; ++c) x[static_cast<std::size_t>(c * cols + c)] = 1.0F;
      const MatmulJob job{.x_stride = cols, .dtype = f.dtype, .w = w.data(), .rows = rows, .cols = cols};
      ThreadPool one(1);
      const auto all = product(*table, job, x, 0, cols, one);
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto single = product(*table, job, x, c, 1, one);
        for (std::int64_t r = 0; r < rows; ++r) {
          ASSERT_EQ(single[static_cast<std::size_t>(r)], w.value(r, c)) << "row " << r << " column " << c;
          ASSERT_EQ(all[static_cast<std::size_t>(c * rows + r)], w.value(r, c)) << "row " << r << " column " << c;
        }
      }
    }
  }
}

TEST(MatmulOfAnIsa, ColumnsBeyondTheEndAreNotRead) {
  for (const auto& [name, table] : fast_tables()) {
    SCOPED_TRACE(name);
    // What follows a row of x or of w is another row; a NaN there must not leak.
    const std::vector<float> w = {1, 2, 3, NAN, NAN, NAN};
    const std::vector<float> x = {1, 1, 1, NAN, NAN, NAN, NAN, NAN};
    ThreadPool pool(1);
    MatmulJob job{
        .x_stride = 3, .dtype = DType::F32, .w = reinterpret_cast<const std::byte*>(w.data()), .rows = 1, .cols = 3};
    EXPECT_EQ(product(*table, job, x, 0, 1, pool)[0], 6.0F);
    job.rows = 2;
    EXPECT_EQ(product(*table, job, x, 0, 1, pool)[0], 6.0F);
    const std::vector<float> four = {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4};
    job.rows = 1;
    EXPECT_EQ(product(*table, job, four, 0, 4, pool), (std::vector<float>{6, 12, 18, 24}));
  }
}

TEST(MatmulOfAnIsa, InfinityAndNanInAWeightStayInTheirOutput) {
  for (const auto& [name, table] : fast_tables()) {
    SCOPED_TRACE(name);
    std::vector<float> w(6 * 40, 1.0F);
    w[40 + 7] = INFINITY;
    w[3 * 40 + 39] = NAN;
    const std::vector<float> x(5 * 40, 1.0F);
    ThreadPool pool(1);
    const MatmulJob job{
        .x_stride = 40, .dtype = DType::F32, .w = reinterpret_cast<const std::byte*>(w.data()), .rows = 6, .cols = 40};
    for (const std::int64_t tokens : {1, 5}) {
      const auto y = product(*table, job, x, 0, tokens, pool);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (i % 6 == 1)
          EXPECT_TRUE(std::isinf(y[i]));
        else if (i % 6 == 3)
          EXPECT_TRUE(std::isnan(y[i]));
        else
          EXPECT_EQ(y[i], 40.0F);
      }
    }
  }
}

}  // namespace
}  // namespace knapsack
