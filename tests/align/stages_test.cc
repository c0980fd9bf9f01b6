// What passes make of a model beside the model: nothing is born in any pass, and what a wrong one changes is named.
#include <gtest/gtest.h>

#include <algorithm>

#include "align/golden_graph.h"
#include "align/plant.h"
#include "graph/decompose/decompose.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

namespace knapsack::testing {
namespace {

constexpr std::int64_t ctx = longest + 8;  // room for a padded step

Graph passed(const Graph& graph, Stage to, std::int64_t tokens, std::span<const PassInfo> passes = all_passes()) {
  ThreadPool pool(1);
  auto made =
      run_passes(graph, Stage::imported, {.context = {.step = {.tokens = tokens, .ctx = ctx}}, .to = to}, pool, passes);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(made->graph);
}

bool paired(const Alignment& found, const std::string& name) {
  return std::any_of(found.nodes.begin(), found.nodes.end(), [&](const AlignedNode& n) { return n.name == name; });
}

TEST(AlignStages, NothingIsBornInAPass) {
  for (const std::string& model : golden_sample()) {
    const auto [graph, ids] = golden_graph(model);
    const auto a = source(graph, "A");
    struct Form {
      Stage stage;
      std::int64_t tokens;
    };
    for (const auto& [stage, tokens] : {Form{Stage::canonical, 1}, Form{Stage::fixed, 1}, Form{Stage::fixed, 6},
                                        Form{Stage::fused, 1}, Form{Stage::fused, 6}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", model, stage_name(stage), tokens));
      const auto b = source(passed(graph, stage, tokens), "B");
      const auto found = align(*a, *b, {ids}, {}).value();
      EXPECT_EQ(born(found), Names{});
      EXPECT_TRUE(found.has_logits);
      // Of a step of several tokens a static graph has the last one's logits.
      const auto count = static_cast<std::int64_t>(ids.size());
      EXPECT_EQ(found.logits.tokens, stage == Stage::canonical || tokens == 1 ? count : (count + tokens - 1) / tokens);
      EXPECT_LT(found.logits.kl, 1e-6);
      EXPECT_EQ(found.logits.top1, 1);
      for (const AlignedNode& each : found.nodes) EXPECT_GT(each.free.cosine, 0.999999) << each.name;
      EXPECT_TRUE(paired(found, "layers.0.mlp.act") || paired(found, "layers.0.mlp.routed")) << "named as before";
      EXPECT_TRUE(paired(found, "layers.0.attn.context"));
      EXPECT_TRUE(paired(found, "layers.0.out"));
      // But for columns put in one order for several products, all is there until something is fused.
      for (const std::string& name : found.a_only)
        EXPECT_TRUE(stage == Stage::fused || name.ends_with("_proj.order")) << name;
    }
  }
}

// Merged products keep the names of their parts.
TEST(AlignStages, PartsOfAMergedProductPair) {
  const auto [graph, ids] = golden_graph("qwen2-tied-gqa");
  const auto found = align(*source(graph, "A"), *source(passed(graph, Stage::fused, 1), "B"), {ids}, {}).value();
  for (const char* name : {"q_proj", "k_proj", "v_proj", "q_rope", "k_rope"})
    EXPECT_TRUE(paired(found, fmt::format("layers.1.attn.{}", name))) << name;
  EXPECT_EQ(node(found, "layers.1.attn.q_proj").free.cosine, node(found, "layers.1.attn.k_proj").free.cosine);
  EXPECT_NE(std::find(found.b_only.begin(), found.b_only.end(), "layers.1.attn.q_proj+k_proj+v_proj"),
            found.b_only.end());
  EXPECT_NE(std::find(found.a_only.begin(), found.a_only.end(), "layers.1.attn_norm"), found.a_only.end());
}

// In ONNX's operators: a value is the last of its parts.
TEST(AlignStages, NothingIsBornInPrimitives) {
  for (const std::string& model : golden_sample()) {
    SCOPED_TRACE(model);
    const auto [graph, ids] = golden_graph(model);
    const Graph primitive =
        decompose(graph, {.tokens = 1, .kv = KvForm::indexed, .ctx = longest, .floats = DType::F32});
    const auto found = align(*source(graph, "A"), *source(primitive, "B"), {ids}, {}).value();
    EXPECT_EQ(born(found), Names{});
    EXPECT_EQ(found.logits.top1, 1);
    EXPECT_EQ(found.logits.tokens, static_cast<std::int64_t>(ids.size()));
    // Weights of experts are spread over all of them; heads are put together, one product split and a row selected in
    // other places.
    for (const std::string& name : found.a_only) {
      const auto ends = [&](const char* word) { return name.ends_with(word); };
      EXPECT_TRUE(name == "selected" || ends(".experts.1") || ends("_rope") || ends(".k_pos") || ends(".k_proj") ||
                  ends(".v_proj") || ends(".up_proj"))
          << name;
    }
    EXPECT_TRUE(paired(found, "layers.0.attn_norm"));
    EXPECT_TRUE(paired(found, "layers.0.attn.context"));
    EXPECT_TRUE(paired(found, "layers.0.out"));
  }
}

// A fault in a pass is named where it is planted.
struct Wrong {
  const char* model;
  const char* name;
  Attr key;
  double value;
};
constexpr std::array<Wrong, 3> wrong_passes{{{"qwen2-tied-gqa", "layers.1.mlp.act", Attr::act, 1},
                                             {"gemma3-text", "layers.1.mlp.act", Attr::offset, 0},
                                             {"mistral-window", "layers.1.attn.context", Attr::window, 7}}};
template <std::size_t number>
Result<Graph> breaks(const Graph& graph, const PassContext&) {
  constexpr const Wrong& wrong = wrong_passes[number];
  Rewriter to(graph);
  for (const Node& each : graph.list()) {
    if (each.name != wrong.name) {
      to.copy(each);
    } else if (attr_kind(wrong.key) == AttrKind::number) {
      to.copy(each, to.of(each.inputs), with(each.attrs, wrong.key, wrong.value));
    } else {
      to.copy(each, to.of(each.inputs), with(each.attrs, wrong.key, static_cast<std::int64_t>(wrong.value)));
    }
  }
  return to.finish();
}

TEST(AlignStages, WhatAPassChangesIsNamed) {
  const std::array<PassFn, wrong_passes.size()> fns{breaks<0>, breaks<1>, breaks<2>};
  for (std::size_t i = 0; i < fns.size(); ++i) {
    const Wrong& wrong = wrong_passes[i];
    SCOPED_TRACE(wrong.model);
    const auto [graph, ids] = golden_graph(wrong.model);
    std::vector<PassInfo> passes(all_passes().begin(), all_passes().end());
    passes.push_back({Pass::drop_dead, "breaks-it", Stage::fused, "", fns[i]});
    for (const std::int64_t tokens : {1, 6}) {
      const auto b = source(passed(graph, Stage::fused, tokens, passes), "B");
      const auto found = align(*source(graph, "A"), *b, {ids}, {}).value();
      EXPECT_EQ(born(found), Names{wrong.name});
      EXPECT_FALSE(found.passed);
    }
  }
}

}  // namespace
}  // namespace knapsack::testing
