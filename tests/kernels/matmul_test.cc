// The scalar product against double arithmetic, for every format, plain and transposed.
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/random_weight.h"

namespace knapsack {
namespace {

TEST(Matmul, ScalarIsTheProductOfDecodedWeights) {
  ThreadPool pool(2);
  for (const FormatInfo& f : all_formats()) {
    SCOPED_TRACE(f.name);
    const std::int64_t rows = 13;
    const std::int64_t cols = f.block == 1 ? 77 : 2 * f.block;
    const std::int64_t tokens = 3;
    const testing::RandomMatrix w(f.dtype, rows, cols, 5);
    for (const bool transposed : {false, true}) {
      const std::int64_t in = transposed ? rows : cols;
      const std::int64_t out = transposed ? cols : rows;
      const auto x = testing::random_floats(tokens * (in + 2), 6);
      const auto bias = testing::random_floats(out, 7);
      std::vector<float> y(static_cast<std::size_t>(tokens * (out + 1)), -1.0F);
      std::vector<std::byte> scratch(matmul_scratch_bytes(tokens, cols, pool.size()));
      const MatmulJob job{.x = x.data(),
                          .x_stride = in + 2,
                          .y = y.data(),
                          .y_stride = out + 1,
                          .tokens = tokens,
                          .dtype = f.dtype,
                          .w = w.data(),
                          .rows = rows,
                          .cols = cols,
                          .bias = transposed ? nullptr : bias.data(),
                          .transposed = transposed};
      matmul(scalar_matmul(), {&job, 1}, pool, scratch);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t o = 0; o < out; ++o) {
          double want = transposed ? 0.0 : bias[static_cast<std::size_t>(o)];
          double size = std::fabs(want);
          for (std::int64_t i = 0; i < in; ++i) {
            const double product = static_cast<double>(x[static_cast<std::size_t>(t * (in + 2) + i)]) *
                                   w.value(transposed ? i : o, transposed ? o : i);
            want += product;
            size += std::fabs(product);
          }
          EXPECT_NEAR(y[static_cast<std::size_t>(t * (out + 1) + o)], want, size * 1e-6) << t << " " << o;
        }
        EXPECT_EQ(y[static_cast<std::size_t>(t * (out + 1) + out)], -1.0F);
      }
    }
  }
}

TEST(Matmul, JobsOfOneCallAreIndependent) {
  ThreadPool pool(2);
  const testing::RandomMatrix w(DType::Q8_0, 40, 64, 1);
  const auto x = testing::random_floats(4 * 64, 2);
  std::vector<float> y(4 * 40);
  std::vector<float> parts(4 * 40);
  std::vector<std::byte> scratch(matmul_scratch_bytes(4, 64, pool.size()));
  MatmulJob job{.x = x.data(),
                .x_stride = 64,
                .y = y.data(),
                .y_stride = 40,
                .tokens = 4,
                .dtype = DType::Q8_0,
                .w = w.data(),
                .rows = 40,
                .cols = 64};
  matmul(scalar_matmul(), {&job, 1}, pool, scratch);
  std::vector<MatmulJob> jobs;
  for (std::int64_t first = 0; first < 40; first += 10) {
    job.y = parts.data() + first;
    job.rows = 10;
    job.w = w.data() + first * row_bytes(DType::Q8_0, 64);
    jobs.push_back(job);
    jobs.push_back({});  // an expert without tokens
  }
  matmul(scalar_matmul(), jobs, pool, scratch);
  EXPECT_EQ(y, parts);
}

}  // namespace
}  // namespace knapsack
