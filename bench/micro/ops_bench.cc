// The ops around the products, at the shapes of SmolLM2-135M: decode (1 row) and prefill (128 rows).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/call.h"
#include "kernels/native.h"
#include "kernels/packed.h"
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

// Latent attention's products at DeepSeek-V2-Lite's shape: 16 heads of 128 columns, a latent of 512.
void head_linear(benchmark::State& state, DType dtype, bool transposed, bool integers, std::int64_t rows) {
  constexpr std::int64_t latent_heads = 16;
  constexpr std::int64_t width = 128;
  constexpr std::int64_t latent = 512;
  const testing::RandomMatrix values(dtype, latent_heads * width, latent, 1);
  const Weight weight{.name = "w", .dtype = dtype, .shape = {latent_heads * width, latent}, .slabs = {values.data()}};
  const std::int64_t in = transposed ? width : latent;
  const auto x = testing::random_floats(rows * latent_heads * in, 2);
  std::vector<PackedMatrix> packed;
  for (std::int64_t h = 0; integers && h < latent_heads; ++h)
    packed.push_back(
        *pack(packed_table(isa()), dtype, values.data() + h * width * row_bytes(dtype, latent), width, latent, pool()));
  Attrs attrs;
  attrs.set(Attr::heads, latent_heads).set(Attr::in_stride, in).set(Attr::in_offset, 0).set(Attr::head_rows, width);
  attrs.set(Attr::row_offset, 0).set(Attr::rows, width).set(Attr::transposed, transposed ? 1 : 0);
  testing::Call call(Op::head_linear, rows, attrs);
  call.activation(x.data(), latent_heads * in).weight(weight, packed.empty() ? nullptr : packed.data());
  call.prepare(isa(), pool(), latent_heads * (transposed ? latent : width), {});
  for (auto _ : state) call.again();
  const double products = static_cast<double>(2 * rows * latent_heads * width * latent * state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(products / 1e9, benchmark::Counter::kIsRate);
}

void embed(benchmark::State& state, DType dtype, std::int64_t rows) {
  constexpr std::int64_t vocab = 4096;
  const testing::RandomMatrix table(dtype, vocab, hidden, 1);
  const Weight weight{.name = "w", .dtype = dtype, .shape = {vocab, hidden}, .slabs = {table.data()}};
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 1663 % vocab);
  testing::Call call(Op::embed, rows, Attrs());
  call.activation(reinterpret_cast<const float*>(ids.data()), 1).weight(weight);
  call.prepare(isa(), pool(), hidden, {});
  for (auto _ : state) call.again();
}

}  // namespace

void register_ops() {
  for (const std::int64_t context : {128, 1024, 8192})
    for (const std::int64_t rows : {1, 128})
      benchmark::RegisterBenchmark(("attention/" + std::to_string(rows) + "/" + std::to_string(context)).c_str(),
                                   [=](benchmark::State& state) { attention(state, rows, context); })
          ->UseRealTime();
  for (const DType dtype : {DType::Q4_0, DType::Q8_0})
    for (const auto& [kind, transposed, integers] :
         {std::tuple("floats", false, false), {"floats, transposed", true, false}, {"integers", false, true}})
      for (const std::int64_t rows : {1, 128})
        benchmark::RegisterBenchmark(
            fmt::format("head_linear/{}/{}/{}", name(dtype), kind, rows).c_str(),
            [=](benchmark::State& state) { head_linear(state, dtype, transposed, integers, rows); })
            ->UseRealTime();
  for (const std::int64_t rows : {1, 128})
    benchmark::RegisterBenchmark(fmt::format("embed/Q8_0/{}", rows).c_str(), [=](benchmark::State& state) {
      embed(state, DType::Q8_0, rows);
    })->UseRealTime();
  for (const Op op : {Op::rms_norm, Op::rope, Op::gated_act, Op::add})
    for (const std::int64_t rows : {1, 128})
      benchmark::RegisterBenchmark((std::string(op_info(op).text) + "/" + std::to_string(rows)).c_str(),
                                   [=](benchmark::State& state) { row_wise(state, op, rows); })
          ->UseRealTime();
}

}  // namespace knapsack::bench
