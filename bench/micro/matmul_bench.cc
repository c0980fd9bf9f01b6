// matmul/FORMAT/tokens: a [1536, 1536] product, over enough different matrices that none is found in a cache.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kernels/random_weight.h"
#include "kernels/x86/x86.h"
#include "machine.h"

namespace knapsack::bench {
namespace {

void run(benchmark::State& state, DType dtype, std::int64_t tokens) {
  constexpr std::int64_t size = 1536;
  const std::int64_t bytes = size * row_bytes(dtype, size);
  const std::int64_t copies = tokens == 1 ? (std::int64_t{64} << 20) / bytes + 1 : 1;
  const testing::RandomMatrix block(dtype, 8, size, 1);
  std::vector<std::byte> weights;
  for (std::int64_t i = 0; i < copies * size / 8; ++i)
    weights.insert(weights.end(), block.data(), block.data() + 8 * row_bytes(dtype, size));
  const auto x = testing::random_floats(tokens * size, 2);
  std::vector<float> y(static_cast<std::size_t>(tokens * size));
  const std::size_t scratch_bytes = matmul_scratch_bytes(tokens, size, pool().size());
  std::vector<float> scratch(scratch_bytes / 4 + 16);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const MatmulTable& table = isa() == Isa::scalar ? scalar_matmul() : avx2_matmul();
  MatmulJob job{.x = x.data(),
                .x_stride = size,
                .y = y.data(),
                .y_stride = size,
                .tokens = tokens,
                .dtype = dtype,
                .rows = size,
                .cols = size};
  std::int64_t turn = 0;
  for (auto _ : state) {
    job.w = weights.data() + turn++ % copies * bytes;
    matmul(table, {&job, 1}, pool(), {aligned, scratch_bytes});
    benchmark::ClobberMemory();
  }
  const double rounds = static_cast<double>(state.iterations());
  const auto rate = [&](double amount) { return benchmark::Counter(amount * rounds, benchmark::Counter::kIsRate); };
  const double flops = 2.0 * static_cast<double>(tokens * size * size);
  state.counters["GFLOP/s"] = rate(flops / 1e9);
  state.counters["GB/s"] = rate(static_cast<double>(bytes) / 1e9);
  state.counters["flops/peak"] = rate(flops / 1e9 / peak_gflops());
  state.counters["read/peak"] = rate(static_cast<double>(bytes) / 1e9 / peak_read_gbps());
}

}  // namespace

void register_matmul() {
  for (const FormatInfo& f : all_formats())
    for (const std::int64_t tokens : {1, 2, 128})
      benchmark::RegisterBenchmark(("matmul/" + std::string(f.name) + "/" + std::to_string(tokens)).c_str(),
                                   [&f, tokens](benchmark::State& state) { run(state, f.dtype, tokens); })
          ->UseRealTime();
}

}  // namespace knapsack::bench
