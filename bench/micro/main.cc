// Kernels by themselves, beside what the machine can do. Not the speed of a model: `knapsack run --json` reports that.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "machine.h"

namespace knapsack::bench {
void register_matmul();
void register_ops();
void register_sampler();
}  // namespace knapsack::bench

int main(int argc, char** argv) {
  using namespace knapsack::bench;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  fmt::print(stderr, "{} threads, {}; peak {:.0f} GFLOP/s, reads {:.1f} GB/s\n", pool().size(),
             knapsack::isa_name(isa()), peak_gflops(), peak_read_gbps());
  register_matmul();
  register_ops();
  register_sampler();
  benchmark::RunSpecifiedBenchmarks();
}
