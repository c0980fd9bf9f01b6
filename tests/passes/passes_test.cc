// The passes on every golden model: proved one by one, counted, switched off one by one; what breaks is named.
#include "passes/pass.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "graph/decompose/decompose.h"
#include "graph/decompose/unfuse.h"
#include "graph/rewrite.h"
#include "import/golden.h"

namespace knapsack {
namespace {

using testing::golden_names;
using testing::golden_sample;
using testing::graph_of;
using testing::read_file;
using testing::source_dir;

PassOptions options_for(std::int64_t tokens, bool prove) {
  PassOptions options;
  options.context.step.tokens = tokens;
  options.context.step.ctx = 32;
  options.prove = prove;
  return options;
}

std::map<Op, int> counts(const Graph& graph) {
  std::map<Op, int> counts;
  for (const Node& node : graph.list()) ++counts[node.op];
  return counts;
}

TEST(Passes, EveryOneIsProvedOnEveryGoldenModel) {
  ThreadPool pool(1);
  for (const std::string& name : golden_sample()) {
    const Graph graph = graph_of(name);
    for (const std::int64_t tokens : {1, 6}) {
      const auto passed = run_passes(graph, Stage::imported, options_for(tokens, true), pool);
      ASSERT_TRUE(passed) << name << ": " << passed.error().message;
      for (const PassReport& each : passed->passes) {
        EXPECT_GE(each.rel_l2, 0) << name << ", " << each.name;
        EXPECT_LE(each.rel_l2, 1e-5) << name << ", " << each.name;
        EXPECT_LE(each.nodes_after, each.nodes_before) << name << ", " << each.name;
        // Tables of angles are read where few frequencies were.
        if (each.name != "rope-tables") {
          EXPECT_LE(each.bytes_after, each.bytes_before) << name << ", " << each.name;
        }
      }
      EXPECT_TRUE(verify(passed->graph, Stage::fused));
      const auto text = graph_from_text(to_text(passed->graph));
      ASSERT_TRUE(text) << name << ": " << text.error().message;
      EXPECT_EQ(to_text(*text), to_text(passed->graph));
    }
  }
}

TEST(Passes, EachCanBeLeftOut) {
  ThreadPool pool(1);
  for (const std::string name : {"qwen2-tied-gqa", "deepseek-v3", "gemma3-text"}) {
    const Graph graph = graph_of(name);
    for (const PassInfo& info : all_passes()) {
      PassOptions options = options_for(2, true);
      options.without = {std::string(info.name)};
      const auto passed = run_passes(graph, Stage::imported, options, pool);
      ASSERT_TRUE(passed) << name << " without " << info.name << ": " << passed.error().message;
      for (const PassReport& each : passed->passes) EXPECT_EQ(each.skipped, each.name == info.name);
    }
  }
  PassOptions options = options_for(2, false);
  options.without = {"fuse-everything"};
  const auto refused = run_passes(graph_of("qwen2-tied-gqa"), Stage::imported, options, pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::usage);
  EXPECT_NE(refused.error().message.find("merge-linears"), std::string::npos);
}

// A layer of Qwen2: norm and QKV, its split, two ropes, two writes, attention, o and the sum, norm and gate and up and
// what is between, down and the sum.
TEST(Passes, AFusedLayerHasTenNodes) {
  ThreadPool pool(1);
  const auto passed = run_passes(graph_of("qwen2-tied-gqa"), Stage::imported, options_for(1, false), pool);
  ASSERT_TRUE(passed) << passed.error().message;
  std::map<Op, int> layer;
  for (const Node& node : passed->graph.list())
    if (node.layer() == 1) ++layer[node.op];
  EXPECT_EQ(layer,
            (std::map<Op, int>{
                {Op::rope_cached, 2}, {Op::kv_write, 2}, {Op::attention, 1}, {Op::fused_linear, 4}, {Op::Split, 1}}));
  EXPECT_GE(passed->graph.find("layers.1.attn.q_proj"), 0) << "parts keep their names";
}

// Of the shape of DeepSeek-R1-Distill-Qwen-1.5B (Qwen2): at most 40 % of the nodes of the primitive form.
TEST(Passes, TheFusedDecodeGraphOfThe1_5BIsSmall) {
  ThreadPool pool(1);
  const std::string name = "deepseek-r1-distill-qwen-1.5b";
  const json::object config = *parse_json_object(read_file(source_dir() / "models" / (name + ".json")), name);
  auto imported = import_config(json::serialize(config), name);
  ASSERT_TRUE(imported) << imported.error().message;
  PassOptions options;
  options.context.step.ctx = 4096;
  options.context.data = false;
  const auto passed = run_passes(imported->graph, Stage::imported, options, pool);
  ASSERT_TRUE(passed) << passed.error().message;
  const Graph primitive = decompose(imported->graph, {.tokens = 1, .past = 4095, .stored = false});
  const double share = static_cast<double>(passed->graph.list().size()) / static_cast<double>(primitive.list().size());
  std::printf("nodes: %zu primitive, %zu fused (%.1f %%)\n", primitive.list().size(), passed->graph.list().size(),
              100 * share);
  EXPECT_LE(share, 0.4);
}

TEST(Passes, WhatIsFusedComesApartAgain) {
  ThreadPool pool(1);
  for (const std::string& name : golden_names()) {
    const auto passed = run_passes(graph_of(name), Stage::imported, options_for(3, false), pool);
    ASSERT_TRUE(passed) << name << ": " << passed.error().message;
    const Graph parts = unfuse(passed->graph);
    EXPECT_EQ(counts(parts)[Op::fused_linear], 0);
    const auto proof = prove_equal(passed->graph, parts, {.tolerance = 1e-6}, pool);
    EXPECT_TRUE(proof) << name << ": " << (proof ? "" : proof.error().message);
  }
}

TEST(Passes, WhatTheTargetLacksIsWrittenOtherwise) {
  ThreadPool pool(1);
  for (const std::string& name : golden_sample()) {
    for (const Op lacking : {Op::fused_linear, Op::rope_cached, Op::attention, Op::gated_act, Op::rms_norm}) {
      PassOptions options = options_for(2, true);
      options.context.target.has = [&](const Graph&, const Node& node) { return node.op != lacking; };
      const auto passed = run_passes(graph_of(name), Stage::imported, options, pool);
      ASSERT_TRUE(passed) << name << " without " << op_info(lacking).text << ": " << passed.error().message;
      EXPECT_EQ(counts(passed->graph)[lacking], 0) << name;
    }
  }
}

TEST(Passes, FusionStaysWithinTheChip) {
  ThreadPool pool(1);
  PassOptions options = options_for(1, false);
  options.context.target.on_chip_bytes = 200;  // a row of 64 halves fits, gate and up of 320 do not
  const auto passed = run_passes(graph_of("qwen2-tied-gqa"), Stage::imported, options, pool);
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(counts(passed->graph)[Op::gated_act], 3);
  bool normed = false;
  for (const Node& node : passed->graph.list()) normed = normed || node.attrs.i(Attr::norm) == 1;
  EXPECT_TRUE(normed);
}

// What a fused op would have beyond what the target encodes stays an op of its own; the rest is fused still.
TEST(Passes, FusionStaysWithinTheEncodings) {
  ThreadPool pool(1);
  const Graph graph = graph_of("qwen2-tied-gqa");
  const auto with = [&](const std::function<bool(const Node&)>& encodes, std::int64_t bytes = 0) {
    PassOptions options = options_for(1, true);
    if (encodes != nullptr) options.context.target.has = [&](const Graph&, const Node& node) { return encodes(node); };
    options.context.target.on_chip_bytes = bytes;
    const auto passed = run_passes(graph, Stage::imported, options, pool);
    EXPECT_TRUE(passed) << (passed ? "" : passed.error().message);
    return counts(passed->graph);
  };
  const auto lacks = [](Attr key) {
    return [key](const Node& node) { return node.op != Op::fused_linear || !node.attrs.has(key); };
  };
  auto all = with(nullptr);
  EXPECT_EQ(all[Op::add] + all[Op::rms_norm] + all[Op::gated_act], 0);
  auto no_sum = with(lacks(Attr::residual));
  EXPECT_EQ(no_sum[Op::add], 6);
  EXPECT_EQ(no_sum[Op::rms_norm] + no_sum[Op::gated_act], 0);
  auto no_norm = with(lacks(Attr::norm));
  EXPECT_EQ(no_norm[Op::rms_norm], 7);
  EXPECT_EQ(no_norm[Op::add] + no_norm[Op::gated_act], 0);
  auto no_gate = with(lacks(Attr::act));
  EXPECT_EQ(no_gate[Op::gated_act], 3);
  EXPECT_EQ(no_gate[Op::add] + no_gate[Op::rms_norm], 0);
  // A row of 64 halves does not fit, so nothing stays on the chip.
  auto tiny = with(nullptr, 127);
  EXPECT_EQ(tiny[Op::add], 6);
  EXPECT_EQ(tiny[Op::rms_norm], 7);
  EXPECT_EQ(tiny[Op::gated_act], 3);
  EXPECT_EQ(tiny[Op::fused_linear], 0);
}

// A pass that changes what is computed, and one that makes no graph, are named; the graph of before lies where asked.
Result<Graph> scales_a_node(const Graph& graph, const PassContext&) {
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    to.copy(node);
    if (node.name != "layers.1.out") continue;
    const ValueId out = to.to().node(Op::scale, "louder", {to.of(node.outputs[0])}, Attrs().set(Attr::scale, 1.5));
    to.replace(node.outputs[0], out);
  }
  return to.finish();
}
Result<Graph> loses_the_output(const Graph& graph, const PassContext&) {
  Graph out;
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::input) out.input(v.name, v.dtype, v.dims);
  return out;
}

TEST(Passes, OneThatBreaksIsNamed) {
  ThreadPool pool(1);
  const auto path = std::filesystem::path(::testing::TempDir()) / "before.graph.txt";
  const Graph graph = graph_of("qwen2-tied-gqa");
  for (const auto& [run, words] :
       {std::pair{PassFn{scales_a_node}, "logits"}, std::pair{PassFn{loses_the_output}, "no output"}}) {
    PassOptions options = options_for(1, true);
    options.dump = path.string();
    const std::vector<PassInfo> passes{{Pass::drop_dead, "breaks-it", Stage::canonical, "", run}};
    std::filesystem::remove(path);
    const auto passed = run_passes(graph, Stage::imported, options, pool, passes);
    ASSERT_FALSE(passed);
    EXPECT_NE(passed.error().message.find("pass breaks-it"), std::string::npos) << passed.error().message;
    EXPECT_NE(passed.error().message.find(words), std::string::npos) << passed.error().message;
    EXPECT_NE(passed.error().message.find(path.string()), std::string::npos);
    EXPECT_EQ(read_file(path), to_text(graph));
  }
}

// A proof says what it would take, and which flag to lower.
TEST(Proofs, AreBounded) {
  ThreadPool pool(1);
  const Graph graph = graph_of("qwen2-tied-gqa");
  PassOptions options = options_for(4, true);
  options.proof.most_products = 1000;
  const auto work = run_passes(graph, Stage::imported, options, pool);
  ASSERT_FALSE(work);
  EXPECT_EQ(work.error().code, Code::resource);
  EXPECT_NE(work.error().message.find("--tokens"), std::string::npos) << work.error().message;
  options = options_for(1, true);
  options.context.step.ctx = std::int64_t{1} << 30;  // 768 GiB
  options.context.data = false;
  options.to = Stage::fixed;
  options.without = {"rope-tables"};
  const auto memory = run_passes(graph, Stage::imported, options, pool);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, Code::resource);
  EXPECT_NE(memory.error().message.find("--ctx"), std::string::npos) << memory.error().message;
  // Enough for some steps: fewer are compared.
  const auto few = prove_equal(graph, graph, {.tokens = 1, .most_products = 400000}, pool);
  const auto all = prove_equal(graph, graph, {.tokens = 1}, pool);
  ASSERT_TRUE(few) << few.error().message;
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_LT(few->values, all->values);
}

TEST(Proofs, RunEachGraphOnceOnPromptsToo) {
  ThreadPool pool(1);
  const Graph graph = graph_of("qwen2-tied-gqa");
  ProveOptions options{.prompts = {{1, 2, 3}, {5, 6, 7, 8, 9, 10, 11}}, .tokens = 4, .ctx = 32};
  Outcome known;
  ASSERT_TRUE(prove_equal(graph, graph, options, pool, &known));
  // A prompt that is shorter than a step fills one; of the longer one a step, of random ids three.
  ASSERT_EQ(known.outputs.size(), 3U);
  const std::size_t vocab = static_cast<std::size_t>(graph.value(graph.output()).cols());
  EXPECT_EQ(known.outputs[0].size(), vocab);
  EXPECT_EQ(known.outputs[1].size(), vocab);
  EXPECT_EQ(known.outputs[2].size(), 3 * vocab);
  ASSERT_TRUE(prove_equal(graph, graph, options, pool, &known));
  for (float& value : known.outputs[1]) value += 1;
  const auto other = prove_equal(graph, graph, options, pool, &known);
  ASSERT_FALSE(other) << "what is known is not computed again";
  EXPECT_NE(other.error().message.find("the logits of a prompt"), std::string::npos) << other.error().message;
}

TEST(Passes, TrainingLeavesNothingBehind) {
  ThreadPool pool(1);
  auto graph = graph_from_text(
      "knapsack-graph 1\n"
      "input %x [2, 2, 3] F32\n"
      "constant @w [2, 2, 1] F32 = 1, 2, -1, 0.5\n"
      "constant @b [2] F32 = 0.25, -1\n"
      "constant @scale [2] F32 = 2, 0.5\n"
      "constant @shift [2] F32 = -1, 3\n"
      "constant @mean [2] F32 = 0.5, -0.25\n"
      "constant @variance [2] F32 = 4, 0.25\n"
      "%c [2, 2, 3] F32 = Conv %x, @w, @b\n"
      "%n [2, 2, 3] F32 = BatchNormalization %c, @scale, @shift, @mean, @variance {eps=0.001}\n"
      "%d [2, 2, 3] F32 = Dropout %n\n"
      "%i [2, 2, 3] F32 = Identity %d\n"
      "%unused [2, 2, 3] F32 = Relu %d\n"
      "%a [2, 2, 3] F32 = Relu %i\n"
      "%again [2, 2, 3] F32 = Relu %i\n"
      "%y [2, 2, 3] F32 = Add %a, %again\n"
      "output %y\n");
  ASSERT_TRUE(graph) << graph.error().message;
  PassOptions options = options_for(1, true);
  options.to = Stage::canonical;
  const auto passed = run_passes(*graph, Stage::imported, options, pool);
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(counts(passed->graph), (std::map<Op, int>{{Op::Conv, 1}, {Op::Relu, 1}, {Op::Add, 1}}));
}

TEST(Passes, ADropoutOfAnInputThatIsAnOutput) {
  ThreadPool pool(1);
  auto graph = graph_from_text(
      "knapsack-graph 1\n"
      "input %x [2, 3] F32\n"
      "%d [2, 3] F32 = Dropout %x\n"
      "output %d\n");
  ASSERT_TRUE(graph) << graph.error().message;
  const auto passed = run_passes(*graph, Stage::imported, options_for(1, true), pool);
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(counts(passed->graph), (std::map<Op, int>{{Op::Identity, 1}}));
}

TEST(Passes, MasksBecomeFinite) {
  ThreadPool pool(1);
  auto graph = graph_from_text(
      "knapsack-graph 1\n"
      "input %x [1, 4] F32\n"
      "constant @mask [4] F32 = 0, 0, -inf, 0\n"
      "%s [1, 4] F32 = Add %x, @mask\n"
      "%y [1, 4] F32 = Softmax %s {axis=1}\n"
      "output %y\n");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_FALSE(verify(*graph, Stage::fixed));
  PassOptions options = options_for(1, true);
  options.to = Stage::fixed;
  const auto passed = run_passes(*graph, Stage::imported, options, pool);
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(to_text(passed->graph).find("inf"), std::string::npos);
}

TEST(Stages, HoldWhatTheyPromise) {
  const Graph graph = graph_of("qwen2-tied-gqa");
  EXPECT_TRUE(verify(graph, Stage::canonical));
  EXPECT_FALSE(verify(graph, Stage::fixed)) << "T is no number";
  ThreadPool pool(1);
  const auto passed = run_passes(graph, Stage::imported, options_for(1, false), pool);
  ASSERT_TRUE(passed);
  EXPECT_TRUE(verify(passed->graph, Stage::quantized));
  const auto homeless = verify(passed->graph, Stage::partitioned);
  ASSERT_FALSE(homeless);
  EXPECT_NE(homeless.error().message.find("says on no unit"), std::string::npos);
  for (const std::string_view name : stage_names()) EXPECT_EQ(stage_name(*stage_from_name(name)), name);
}

}  // namespace
}  // namespace knapsack
