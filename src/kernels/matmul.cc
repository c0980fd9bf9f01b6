#include "kernels/matmul.h"

#include <algorithm>
#include <array>

namespace knapsack {
namespace {

// Below about 10 us of work a piece costs more to hand out than to compute.
constexpr std::int64_t piece_products = 32768;

// Columns of a transposed job are handed out in pieces of at least this many.
constexpr std::int64_t column_piece = 64;

std::int64_t unit(const MatmulJob& job) {
  return job.transposed ? std::max(column_piece, format(job.dtype).block) : matmul_panel;
}
std::int64_t extent(const MatmulJob& job) { return job.transposed ? job.cols : job.rows; }
std::int64_t units(const MatmulJob& job) { return (extent(job) + unit(job) - 1) / unit(job); }

std::int64_t floats_a_thread(std::int64_t tokens, std::int64_t cols) {
  const std::int64_t panel = matmul_panel * matmul_stride;
  const std::int64_t partial_sums = matmul_panel * 8 * std::min(tokens, matmul_tokens);
  return (std::max(cols, panel) + partial_sums + 15) / 16 * 16;
}

float dot(const float* x, const float* w, std::int64_t cols) {
  std::array<float, 8> lane{};
  std::int64_t c = 0;
  for (; c + 8 <= cols; c += 8)
    for (std::int64_t i = 0; i < 8; ++i) lane[static_cast<std::size_t>(i)] += x[c + i] * w[c + i];
  for (std::int64_t i = 0; c + i < cols; ++i) lane[static_cast<std::size_t>(i)] += x[c + i] * w[c + i];
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void scalar_rows(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  const FormatInfo& f = format(job.dtype);
  const std::int64_t stride = row_bytes(job.dtype, job.cols);
  for (std::int64_t r = begin; r < end; ++r) {
    f.decode(job.w + r * stride, scratch.data(), job.cols / f.block);
    for (std::int64_t t = 0; t < job.tokens; ++t) {
      const float sum = dot(job.x + t * job.x_stride, scratch.data(), job.cols);
      const float biased = job.bias != nullptr ? sum + job.bias[r] : sum;
      const std::int64_t at = t * job.y_stride + r;
      job.y[at] = job.residual != nullptr ? biased + job.residual[at] : biased;
    }
  }
}

void scalar_columns(const MatmulJob& job, std::int64_t begin, std::int64_t end, std::span<float> scratch) {
  const FormatInfo& f = format(job.dtype);
  const std::int64_t stride = row_bytes(job.dtype, job.cols);
  for (std::int64_t t = 0; t < job.tokens; ++t) std::fill_n(job.y + t * job.y_stride + begin, end - begin, 0.0F);
  for (std::int64_t r = 0; r < job.rows; ++r) {
    f.decode(job.w + r * stride + begin / f.block * f.block_bytes, scratch.data(), (end - begin) / f.block);
    for (std::int64_t t = 0; t < job.tokens; ++t) {
      const float x = job.x[t * job.x_stride + r];
      float* y = job.y + t * job.y_stride + begin;
      for (std::int64_t c = 0; c < end - begin; ++c) y[c] += x * scratch[static_cast<std::size_t>(c)];
    }
  }
}

}  // namespace

const MatmulTable& scalar_matmul() {
  static constexpr MatmulTable table{.rows = scalar_rows, .columns = scalar_columns};
  return table;
}

std::size_t matmul_scratch_bytes(std::int64_t tokens, std::int64_t cols, int threads) {
  return static_cast<std::size_t>(floats_a_thread(tokens, cols)) * sizeof(float) * static_cast<std::size_t>(threads);
}

void matmul(const MatmulTable& table, std::span<const MatmulJob> jobs, ThreadPool& pool, std::span<std::byte> scratch) {
  std::int64_t total = 0;
  std::int64_t products = 0;
  std::int64_t floats = 0;
  for (const MatmulJob& job : jobs) {
    if (job.tokens == 0) continue;
    total += units(job);
    products += job.tokens * job.rows * job.cols;
    floats = std::max(floats, floats_a_thread(job.tokens, job.cols));
  }
  if (total == 0) return;
  CHECK(scratch.size() >= static_cast<std::size_t>(floats * pool.size()) * sizeof(float));
  // Eight pieces a thread even out what threads lose to other processes, as long as a piece is worth handing out.
  const std::int64_t worth = std::max<std::int64_t>(1, piece_products * total / std::max<std::int64_t>(1, products));
  const std::int64_t grain = std::max(worth, total / (std::int64_t{8} * pool.size()));
  pool.parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::span<float> mine(reinterpret_cast<float*>(scratch.data()) + thread * floats,
                                static_cast<std::size_t>(floats));
    std::int64_t base = 0;  // of the job's units among all
    for (const MatmulJob& job : jobs) {
      if (job.tokens == 0) continue;
      const std::int64_t count = units(job);
      const std::int64_t first = std::max(begin - base, std::int64_t{0}) * unit(job);
      const std::int64_t last = std::min(std::min(end - base, count) * unit(job), extent(job));
      if (first < last) (job.transposed ? table.columns : table.rows)(job, first, last, mine);
      base += count;
      if (base >= end) break;
    }
  });
}

}  // namespace knapsack
