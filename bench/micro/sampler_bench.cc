// sampling/OPTIONS: one token of a vocabulary of 151,936 (Qwen's), with a distribution in which some thousand tokens
// make up nine tenths: far flatter than a model's usual one, and so what the filters do worst at.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "kernels/random_weight.h"
#include "runtime/sampler.h"

namespace knapsack::bench {
namespace {

constexpr std::int64_t vocab = 151936;

void sample(benchmark::State& state, const SamplerOptions& options) {
  const std::vector<float> logits = testing::random_floats(vocab, 1, 2.5F);
  const std::vector<std::int32_t> history(64, 7);
  Sampler sampler(options, vocab, 1024);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits, history));
}

}  // namespace

void register_sampler() {
  const auto add = [](const std::string& name, const SamplerOptions& options) {
    benchmark::RegisterBenchmark(("sampling/" + name).c_str(),
                                 [=](benchmark::State& state) { sample(state, options); });
  };
  add("greedy", {});
  add("temperature", {.temperature = 0.8F});
  add("top_k 40, top_p 0.95", {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F});
  add("top_p 0.9", {.temperature = 0.8F, .top_p = 0.9F});
  add("min_p 0.05", {.temperature = 0.8F, .min_p = 0.05F});
  add("repetition 1.1, top_k 40", {.temperature = 0.8F, .top_k = 40, .repetition_penalty = 1.1F});
}

}  // namespace knapsack::bench
