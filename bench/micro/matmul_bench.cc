// matmul/FORMAT/ROWSxCOLS/TOKENS: products of floats; packed/...: products of integers (kernels/packed.h), rounding the
// activations included. One token: over enough different matrices that none is found in a cache.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

#include "kernels/choices.h"
#include "kernels/matmul.h"
#include "kernels/native.h"
#include "kernels/packed.h"
#include "kernels/random_weight.h"
#include "machine.h"

namespace knapsack::bench {
namespace {

struct Shape {
  std::int64_t rows, cols;
};
// Of a 1.5B model: a square one, gate or up, down.
constexpr std::array shapes{Shape{1536, 1536}, Shape{8960, 1536}, Shape{1536, 8960}};

std::int64_t copies_of(std::int64_t bytes, std::int64_t tokens) {
  return tokens == 1 ? (std::int64_t{64} << 20) / bytes + 1 : 1;
}

void count(benchmark::State& state, const Shape& shape, std::int64_t tokens, std::int64_t bytes, double peak) {
  const double rounds = static_cast<double>(state.iterations());
  const auto rate = [&](double amount) { return benchmark::Counter(amount * rounds, benchmark::Counter::kIsRate); };
  const double operations = 2.0 * static_cast<double>(tokens * shape.rows * shape.cols);
  state.counters["GOP/s"] = rate(operations / 1e9);
  state.counters["GB/s"] = rate(static_cast<double>(bytes) / 1e9);
  state.counters["products/peak"] = rate(operations / 1e9 / peak);
  state.counters["read/peak"] = rate(static_cast<double>(bytes) / 1e9 / peak_read_gbps());
}

// Rows repeat after eight: drawing values takes longer than multiplying with them.
std::vector<std::byte> repeated(DType dtype, const Shape& shape, std::int64_t copies) {
  const testing::RandomMatrix block(dtype, 8, shape.cols, 1);
  std::vector<std::byte> weights;
  for (std::int64_t i = 0; i < copies * shape.rows / 8; ++i)
    weights.insert(weights.end(), block.data(), block.data() + 8 * row_bytes(dtype, shape.cols));
  return weights;
}

void floats(benchmark::State& state, DType dtype, const Shape& shape, std::int64_t tokens) {
  const std::int64_t bytes = shape.rows * row_bytes(dtype, shape.cols);
  const std::int64_t copies = copies_of(bytes, tokens);
  const std::vector<std::byte> weights = repeated(dtype, shape, copies);
  const auto x = testing::random_floats(tokens * shape.cols, 2);
  std::vector<float> y(static_cast<std::size_t>(tokens * shape.rows));
  const std::size_t scratch_bytes = matmul_scratch_bytes(tokens, shape.cols, pool().size());
  std::vector<float> scratch(scratch_bytes / 4 + 16);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const MatmulTable& table = matmul_table(isa());
  MatmulJob job{.x = x.data(),
                .x_stride = shape.cols,
                .y = y.data(),
                .y_stride = shape.rows,
                .tokens = tokens,
                .dtype = dtype,
                .rows = shape.rows,
                .cols = shape.cols};
  std::int64_t turn = 0;
  for (auto _ : state) {
    job.w = weights.data() + turn++ % copies * bytes;
    matmul(table, {&job, 1}, pool(), {aligned, scratch_bytes});
    benchmark::ClobberMemory();
  }
  count(state, shape, tokens, bytes, peak_gflops());
}

void integers(benchmark::State& state, DType dtype, const Shape& shape, std::int64_t tokens) {
  const std::vector<std::byte> weights = repeated(dtype, shape, 1);
  std::vector<std::unique_ptr<PackedMatrix>> packed;
  do {
    packed.push_back(pack(packed_table(isa()), dtype, weights.data(), shape.rows, shape.cols, pool()));
    if (packed.back() == nullptr) return state.SkipWithError("cannot be packed");
    packed.back()->choice = Choices::built_in().packed(isa(), packed.back()->kind);
  } while (std::ssize(packed) < copies_of(packed[0]->bytes(), tokens));
  const PackedKind& kind = packed[0]->kind;
  const auto x = testing::random_floats(tokens * shape.cols, 2);
  const std::int64_t blocks = shape.cols / packed_block;
  std::vector<std::int8_t> q(static_cast<std::size_t>(tokens * shape.cols));
  std::vector<float> d(static_cast<std::size_t>(tokens * blocks));
  std::vector<float> side(static_cast<std::size_t>(tokens * blocks * kind.groups));
  std::vector<float> y(static_cast<std::size_t>(tokens * shape.rows));
  const PackedTable& table = packed_table(isa());
  PackedJob job{.x = {.q = q.data(), .d = d.data(), .side = side.data()},
                .y = y.data(),
                .y_stride = shape.rows,
                .tokens = tokens};
  std::size_t turn = 0;
  for (auto _ : state) {
    for (std::int64_t t = 0; t < tokens; ++t)
      table.round(
          x.data() + t * shape.cols, shape.cols, kind,
          {.q = q.data() + t * shape.cols, .d = d.data() + t * blocks, .side = side.data() + t * blocks * kind.groups});
    job.w = packed[turn++ % packed.size()].get();
    packed_matmul(table, {&job, 1}, pool());
    benchmark::ClobberMemory();
  }
  count(state, shape, tokens, packed[0]->bytes(), peak_gops(kind.bits));
}

}  // namespace

void register_matmul() {
  const auto add = [](const char* what, const FormatInfo& f, const Shape& shape, std::int64_t tokens, auto run) {
    benchmark::RegisterBenchmark(fmt::format("{}/{}/{}x{}/{}", what, f.name, shape.rows, shape.cols, tokens).c_str(),
                                 [=, dtype = f.dtype](benchmark::State& state) { run(state, dtype, shape, tokens); })
        ->UseRealTime();
  };
  for (const FormatInfo& f : all_formats())
    for (const std::int64_t tokens : {1, 2, 128}) add("matmul", f, shapes[0], tokens, floats);
  for (const FormatInfo& f : all_formats())
    for (const Shape& shape : shapes)
      for (const std::int64_t tokens : {1, 8, 128})
        if (packed_kind(f.dtype)) add("packed", f, shape, tokens, integers);
}

}  // namespace knapsack::bench
