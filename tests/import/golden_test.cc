// Every golden model against transformers' own float32 results: logits, hidden states layer by layer, greedy tokens;
// the same bits for every chunk size and thread count.
#include "import/golden.h"

namespace knapsack::testing {
namespace {

class GoldenTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(golden_names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// LongRoPE's factors follow the length asked for, so each input is run with a context of its own length.
std::int64_t length(std::span<const std::int32_t> ids) { return static_cast<std::int64_t>(ids.size()); }

TEST_P(GoldenTest, LogitsOnEveryIsa) {
  const Golden golden = load_golden(GetParam());
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    Model a(golden.folder, length(golden.ids_a), {.isa = isa});
    EXPECT_LE(max_error(a.logits(golden.ids_a), golden.logits_a), golden.tolerance);
    Model b(golden.folder, length(golden.ids_b), {.isa = isa});
    EXPECT_LE(max_error(b.logits(golden.ids_b), golden.logits_b), golden.tolerance);
  }
}

TEST_P(GoldenTest, HiddenStatesLayerByLayer) {
  const Golden golden = load_golden(GetParam());
  Model model(golden.folder, length(golden.ids_a), {});
  const auto& config = model.imported().config;
  const auto layer_size = golden.ids_a.size() * static_cast<std::size_t>(config.hidden);
  ASSERT_EQ(golden.hidden_a.size(), layer_size * static_cast<std::size_t>(config.layers + 1));
  std::size_t seen = 0;
  model.executor().set_tap([&](std::string_view name, std::int64_t rows, std::int64_t cols, const float* data) {
    std::int64_t layer = -1;
    if (name == "embed") layer = 0;
    if (name == "norm") layer = config.layers;
    for (std::int64_t i = 0; i + 1 < config.layers; ++i)
      if (name == fmt::format("layers.{}.out", i)) layer = i + 1;
    if (layer < 0) return;
    ++seen;
    ASSERT_EQ(static_cast<std::size_t>(rows * cols), layer_size) << name;
    const std::span want(golden.hidden_a.data() + static_cast<std::size_t>(layer) * layer_size, layer_size);
    EXPECT_LE(max_error({data, layer_size}, want), golden.tolerance) << name;
  });
  model.logits(golden.ids_a);
  EXPECT_EQ(seen, static_cast<std::size_t>(config.layers + 1));
}

TEST_P(GoldenTest, GreedyTokens) {
  const Golden golden = load_golden(GetParam());
  for (const Isa isa : supported_isas()) {
    const auto total = length(golden.greedy_prompt) + length(golden.greedy_tokens);
    Model model(golden.folder, total, {.isa = isa});
    EXPECT_EQ(model.greedy(golden.greedy_prompt, golden.greedy_tokens.size()), golden.greedy_tokens) << isa_name(isa);
  }
}

TEST_P(GoldenTest, SameBitsForEveryChunkAndThreadCount) {
  const Golden golden = load_golden(GetParam());
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    Model first(golden.folder, length(golden.ids_a), {.isa = isa});
    const auto want = first.logits(golden.ids_a);
    for (const auto& [chunk, threads] :
         std::vector<std::pair<std::int64_t, int>>{{1, 1}, {7, 2}, {128, 3}, {128, 8}, {1, 8}}) {
      Model model(golden.folder, length(golden.ids_a), {.chunk = chunk, .threads = threads, .isa = isa});
      const auto got = model.logits(golden.ids_a);
      ASSERT_EQ(got.size(), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
          << "chunk " << chunk << ", threads " << threads;
    }
  }
}

// Products with activations rounded to 8 bits: the same bits for every chunk and thread count, and near what float
// activations give on the same weights. Of random models with small rows the rounding shows most.
TEST_P(GoldenTest, IntegerProducts) {
  const Golden golden = load_golden(GetParam());
  for (const DType dtype : {DType::Q4_1, DType::Q8_0}) {
    SCOPED_TRACE(name(dtype));
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(isa_name(isa));
      std::int64_t experts = 0;
      const auto run = [&](std::int64_t chunk, int threads, bool packed, Tap tap = {}) {
        Model model(golden.folder, length(golden.ids_a),
                    {.chunk = chunk, .threads = threads, .isa = isa, .recode = dtype, .packed = packed});
        EXPECT_EQ(model.packed_bytes() > 0, packed);
        EXPECT_EQ(model.packs(Op::moe), packed);
        EXPECT_EQ(model.packs(Op::head_linear), packed);
        experts = model.imported().config.experts;
        model.executor().set_tap(std::move(tap));
        return model.logits(golden.ids_a);
      };
      const auto exact = run(128, 1, false);
      const auto want = run(128, 1, true);
      double error = 0;
      double spread = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        error += std::pow(static_cast<double>(want[i]) - static_cast<double>(exact[i]), 2);
        spread += std::pow(static_cast<double>(exact[i]), 2);
      }
      EXPECT_LE(std::sqrt(error / spread), experts > 0 ? 0.3 : 0.05);  // a near-tie in a router sends a token elsewhere
      EXPECT_GT(error, 0);
      for (const auto& [chunk, threads] : std::vector<std::pair<std::int64_t, int>>{{1, 2}, {7, 3}, {128, 8}}) {
        const auto got = run(chunk, threads, true);
        ASSERT_EQ(got.size(), want.size());
        EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
            << "chunk " << chunk << ", threads " << threads;
      }
      // Whoever taps has products and sums made one by one.
      EXPECT_EQ(run(7, 1, true, [](std::string_view, std::int64_t, std::int64_t, const float*) {}), want);
    }
  }
}

// Experts that memory has no room for stay where they are; all else is packed, and the model runs.
TEST_P(GoldenTest, ExpertsStayInTheFileWhereMemoryIsShort) {
  const Golden golden = load_golden(GetParam());
  std::int64_t taken = 0;
  const auto run = [&](bool packed, std::int64_t memory, const MemorySource& source = huge_memory) {
    Model model(golden.folder, length(golden.ids_a),
                {.recode = DType::Q8_0, .packed = packed, .memory = memory, .source = source});
    taken = model.packed_bytes();
    const bool experts = model.imported().config.experts > 0;
    if (packed) {
      EXPECT_EQ(model.packs(Op::moe), !experts);
      EXPECT_GT(model.packed_bytes(), 0);
    }
    return model.logits(golden.ids_a);
  };
  const auto exact = run(false, 0);
  const auto short_of_memory = run(true, 1000);
  // The same where the system refuses what the machine would have, as under `ulimit -v`.
  const auto refused = run(true, std::numeric_limits<std::int64_t>::max(), [most = taken](std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(most)) throw std::bad_alloc();
    return huge_memory(bytes);
  });
  EXPECT_EQ(refused, short_of_memory);
  double error = 0;
  double spread = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(short_of_memory[i]) - static_cast<double>(exact[i]), 2);
    spread += std::pow(static_cast<double>(exact[i]), 2);
  }
  EXPECT_LE(std::sqrt(error / spread), 0.3);
}

}  // namespace
}  // namespace knapsack::testing
