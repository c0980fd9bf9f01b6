// The ops around the products, at the shapes of SmolLM2-135M: decode (1 row) and prefill (128 rows).
#include <benchmark/benchmark.h>

#include <numeric>
#include <string>
#include <vector>

#include "kernels/call.h"
#include "kernels/random_weight.h"
#include "machine.h"

namespace knapsack::bench {
namespace {

constexpr std::int64_t hidden = 576;
constexpr std::int64_t ffn = 1536;
constexpr std::int64_t heads = 9;
constexpr std::int64_t kv_heads = 3;
constexpr std::int64_t head_dim = 64;

void attention(benchmark::State& state, std::int64_t rows, std::int64_t context) {
  const testing::State k(DType::F16, kv_heads * head_dim, 1, context / 64 + 1, kv_heads);
  const testing::State v(DType::F16, kv_heads * head_dim, 1, context / 64 + 1, kv_heads);
  const auto q = testing::random_floats(rows * heads * head_dim, 1);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(context - rows));
  const std::vector<std::int32_t> slots(positions.size(), 0);
  Attrs attrs;
  attrs.set(Attr::heads, heads).set(Attr::kv_heads, kv_heads).set(Attr::head_dim, head_dim).set(Attr::scale, 0.125F);
  testing::Call call(Op::attention, rows, attrs);
  call.activation(q.data(), heads * head_dim).state(k).state(v);
  call.prepare(isa(), pool(), heads * head_dim, {.positions = positions, .slots = slots});
  for (auto _ : state) call.again();
  const double seen = static_cast<double>(rows) * (static_cast<double>(context) - static_cast<double>(rows - 1) / 2);
  const double flops = 4.0 * seen * heads * head_dim * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, benchmark::Counter::kIsRate);
  state.counters["flops/peak"] = benchmark::Counter(flops / 1e9 / peak_gflops(), benchmark::Counter::kIsRate);
}

void row_wise(benchmark::State& state, Op op, std::int64_t rows) {
  const std::int64_t cols = op == Op::gated_act ? ffn : hidden;
  const auto x = testing::random_floats(rows * cols, 1);
  const auto w = testing::random_floats(op == Op::rope ? head_dim / 2 : cols, 2, 0.1F);
  const Weight weight = testing::vector_weight(w);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::iota(positions.begin(), positions.end(), 1000);
  const std::vector<std::int32_t> slots(positions.size(), 0);
  Attrs attrs;
  attrs.set(Attr::eps, 1e-5F).set(Attr::heads, heads).set(Attr::stride, head_dim).set(Attr::rotary, head_dim);
  testing::Call call(op, rows, attrs);
  call.activation(x.data(), cols);
  if (op == Op::rms_norm || op == Op::rope)
    call.weight(weight);
  else
    call.activation(x.data(), cols);
  call.prepare(isa(), pool(), cols, {.positions = positions, .slots = slots});
  for (auto _ : state) call.again();
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(rows * cols * state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace

void register_ops() {
  for (const std::int64_t context : {128, 1024, 8192})
    for (const std::int64_t rows : {1, 128})
      benchmark::RegisterBenchmark(("attention/" + std::to_string(rows) + "/" + std::to_string(context)).c_str(),
                                   [=](benchmark::State& state) { attention(state, rows, context); })
          ->UseRealTime();
  for (const Op op : {Op::rms_norm, Op::rope, Op::gated_act, Op::add})
    for (const std::int64_t rows : {1, 128})
      benchmark::RegisterBenchmark((std::string(op_info(op).text) + "/" + std::to_string(rows)).c_str(),
                                   [=](benchmark::State& state) { row_wise(state, op, rows); })
          ->UseRealTime();
}

}  // namespace knapsack::bench
