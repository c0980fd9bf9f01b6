// How a decoder's weights and cache lie where the target asks: the same logits, and the bytes that are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/decompose/unfuse.h"
#include "import/golden.h"
#include "passes/pass.h"

namespace knapsack {
namespace {

using testing::golden_names;
using testing::graph_of;

Passed passed(const std::string& name, const Target& target, std::int64_t tokens = 2) {
  ThreadPool pool(1);
  PassOptions options;
  options.context.step.tokens = tokens;
  options.context.step.ctx = 70;  // more than a page of the cache
  options.context.target = target;
  options.prove = true;
  options.proof.tolerance = 1e-5;
  std::vector<std::int32_t> long_one(70);
  for (std::size_t i = 0; i < long_one.size(); ++i) long_one[i] = static_cast<std::int32_t>(i * 7 % 50);
  options.proof.prompts = {long_one};
  auto made = run_passes(graph_of(name), Stage::imported, options, pool);
  if (!made) throw std::runtime_error(name + ": " + made.error().message);
  return std::move(*made);
}

std::map<Op, int> counts(const Graph& graph) {
  std::map<Op, int> counts;
  for (const Node& node : graph.list()) ++counts[node.op];
  return counts;
}

void expect_round_trip(const Graph& graph) {
  const auto text = graph_from_text(to_text(graph));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(to_text(*text), to_text(graph));
}

TEST(Layout, RowsOfWeightsAreWholeLines) {
  Target target;
  target.weight_line = 512;  // rows have 256 bytes
  const Passed made = passed("qwen2-tied-gqa", target);
  const PassReport& layout = made.passes.back();
  ASSERT_EQ(layout.name, "layout");
  std::int64_t more = 0;
  int padded = 0;
  for (const Value& v : made.graph.values()) {
    if (v.kind != ValueKind::constant || v.line == 0) continue;
    ++padded;
    EXPECT_EQ(v.line, 512);
    EXPECT_NE(v.weight->row_size() % 512, 0) << v.name;
    EXPECT_EQ(v.kept_bytes() % 512, 0) << v.name;
    EXPECT_LT(v.weight->bytes(), v.kept_bytes());
    more += v.kept_bytes() - v.weight->bytes();
  }
  std::printf("%d padded by %ld bytes; a step moves %.0f, %.0f\n", padded, static_cast<long>(more), layout.bytes_before,
              layout.bytes_after);
  EXPECT_GT(padded, 0);
  EXPECT_GT(layout.bytes_after, layout.bytes_before);
  expect_round_trip(made.graph);
}

TEST(Layout, ARowThatIsNoLineIsPadded) {
  ThreadPool pool(1);
  const auto graph = graph_from_text(
      "knapsack-graph 1\n"
      "input %x [3, 100] F32\n"
      "constant @w [64, 100] F16\n"
      "constant @b [100, 32] F32\n"
      "%y [3, 64] F32 = linear %x, @w\n"
      "%z [3, 32] F32 = MatMul %x, @b\n"
      "output %y\n"
      "output %z\n");
  ASSERT_TRUE(graph) << graph.error().message;
  PassContext context;
  context.target.weight_line = 128;
  const auto made = pass_layout(*graph, context);
  ASSERT_TRUE(made);
  const Value& w = made->value(made->find("w"));
  EXPECT_EQ(w.line, 128);
  EXPECT_EQ(w.kept_bytes(), 64 * 256);
  EXPECT_EQ(made->value(made->find("b")).line, 0) << "128 bytes each already";
  EXPECT_EQ(bytes_moved(*made, context.step) - bytes_moved(*graph, context.step), 64 * 56);
  EXPECT_NE(to_text(*made).find("constant @w [64, 100] F16 lines 128\n"), std::string::npos) << to_text(*made);
  expect_round_trip(*made);
}

// The executor keeps the cache so; logits beyond a page of it are compared.
TEST(Layout, KeysChannelFirst) {
  Target target;
  target.channel_first_keys = true;
  for (const std::string name : {"qwen2-tied-gqa", "llama-mha-gelu", "gemma3-text", "deepseek-v3"}) {
    const Passed made = passed(name, target);
    int first = 0;
    for (const Value& v : made.graph.values()) first += v.kind == ValueKind::state && v.channel_first ? 1 : 0;
    // What is keys and values at once (a latent) stays as it is.
    EXPECT_EQ(first > 0, name != "deepseek-v3") << name;
    for (const Value& v : made.graph.values())
      if (v.channel_first && v.kind == ValueKind::state) {
        EXPECT_EQ(v.name.back(), 'k') << v.name;
      }
    expect_round_trip(made.graph);
  }
}

// Where attention is in primitives, the Transpose of the keys goes.
TEST(Layout, KeysAreReadAsTheyLie) {
  Target rows;
  rows.has = [](const Graph&, const Node& node) { return node.op != Op::attention; };
  Target target = rows;
  target.channel_first_keys = true;
  for (const std::string name : {"qwen2-tied-gqa", "llama-mha-gelu", "gemma3-text"}) {
    const Passed before = passed(name, rows);
    const Passed made = passed(name, target);
    int layers = 0;
    for (const Node& node : made.graph.list()) layers += node.op == Op::kv_read && node.attrs.i(Attr::transposed) == 1;
    EXPECT_GT(layers, 0) << name;
    EXPECT_EQ(counts(before.graph)[Op::Transpose] - counts(made.graph)[Op::Transpose], layers) << name;
    expect_round_trip(made.graph);
    ThreadPool pool(1);
    const auto proof = prove_equal(made.graph, unfuse(made.graph), {.tolerance = 1e-6}, pool);
    EXPECT_TRUE(proof) << (proof ? "" : proof.error().message);
    // And the scale of attention is the factor of its first product.
    const auto factors = std::count_if(made.graph.list().begin(), made.graph.list().end(), [](const Node& node) {
      return node.op == Op::MatMul && node.attrs.has(Attr::alpha);
    });
    EXPECT_EQ(factors, layers) << name;
    EXPECT_EQ(counts(made.graph)[Op::Expand], 0) << "no head is repeated";
  }
}

TEST(Layout, ACacheOfBlocksIsRefused) {
  const StateInfo state{.name = "layers.0.kv.k", .cols = 64, .heads = 2, .run = 32, .channel_first = true};
  const auto refused = KvCache::create({&state, 1}, 1, 64, DType::Q8_0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unsupported);
  EXPECT_NE(refused.error().message.find("layers.0.kv.k"), std::string::npos);
  EXPECT_TRUE(KvCache::create({&state, 1}, 1, 64, DType::F16));
}

}  // namespace
}  // namespace knapsack
