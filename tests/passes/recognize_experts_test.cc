// Mixtures of experts and latent attention, recognised: what our exporter writes of every golden mixture is the graph
// of its checkpoint, proved; a router, experts or latents that are nearly so are refused with the node and the reason;
// and a recognition that forgot a part of a router is found by the proof.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "export/onnx.h"
#include "graph/rewrite.h"
#include "passes/pass.h"
#include "passes/recognize/recognize.h"
#include "passes/recognize_cases.h"

namespace knapsack {
namespace {

using namespace recognition_tests;
using testing::data_path;
using testing::golden_names;
using testing::TempDir;

// A file of our export, read again: of `tokens` a step.
Graph exported(const Graph& graph, std::int64_t tokens) {
  TempDir folder;
  const OnnxExportOptions options{.ctx = 16, .chunk = std::max<std::int64_t>(tokens, 2)};
  const auto written = export_onnx(graph, folder.path().string(), options, [](std::uint64_t, std::uint64_t) {});
  EXPECT_TRUE(written) << written.error().message;
  auto back = import_onnx(folder.file(tokens == 1 ? "decode.onnx" : "prefill.onnx"), {});
  EXPECT_TRUE(back) << back.error().message;
  return std::move(back->graph);
}

Graph golden(const std::string& name) {
  auto model = import_model(data_path("golden/" + name).string(), {});
  EXPECT_TRUE(model) << model.error().message;
  return std::move(model->graph);
}

std::int64_t count(const Graph& graph, Op op) {
  return std::count_if(graph.list().begin(), graph.list().end(), [&](const Node& node) { return node.op == op; });
}

// Few tokens take the chosen experts' matrices, more go to all experts.
TEST(RecogniseExperts, WhatWeExportIsTheGraphOfTheCheckpointAndProved) {
  ThreadPool pool(1);
  int mixtures = 0;
  for (const std::string& name : golden_names()) {
    const Graph checkpoint = golden(name);
    if (count(checkpoint, Op::moe) == 0) continue;
    const bool moved = count(checkpoint, Op::gather_cols) > 0;  // once for all products that want it so
    for (const std::int64_t tokens : {1, 2, 4}) {
      const Graph graph = exported(checkpoint, tokens);
      const auto passed = run_passes(graph, Stage::imported, {.to = Stage::canonical, .prove = true}, pool);
      ASSERT_TRUE(passed) << name << ": " << passed.error().message;
      EXPECT_EQ(passed->passes[0].note, "") << name;
      EXPECT_GE(passed->passes[0].rel_l2, 0) << name;
      EXPECT_LE(passed->passes[0].rel_l2, 1e-5) << name;
      const auto made = recognize_decoder(graph, true);
      ASSERT_TRUE(made) << name << ", " << tokens << ": " << made.error().message;
      EXPECT_EQ(count(made->graph, Op::moe), count(checkpoint, Op::moe)) << name;
      if (!moved) {
        EXPECT_EQ(differences(made->graph, checkpoint), "") << name << ", " << tokens;
      }
    }
    ++mixtures;
  }
  EXPECT_GE(mixtures, 9);
}

// Without a cache in the file, latent attention keeps latents, as the checkpoint's graph does; routers choose groups.
TEST(RecogniseExperts, LatentAttentionWithoutACacheIsTheGraphOfTheCheckpoint) {
  for (const std::string name : {"deepseek-v2-groups-dynamo", "deepseek-v3"}) {
    const std::string path = data_path("data/onnx/" + name + ".json").string();
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto checkpoint = import_config(text, path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto made = recognize_decoder(imported(open(name), 3, 0), true);
    ASSERT_TRUE(made) << name << ": " << made.error().message;
    EXPECT_EQ(made->note, "");
    EXPECT_EQ(differences(made->graph, checkpoint->graph), "") << name;
  }
}

// A node in place of the one that `at` finds: its inputs and attributes changed.
struct Change {
  std::vector<ValueId> inputs;  // of the new graph
  Attrs attrs;
};
using Changes = std::function<void(Rewriter&, const Node&, Change&)>;

Graph with(const Graph& graph, const Changes& changes) {
  Rewriter to(graph);
  bool changed = false;
  for (const Node& node : graph.list()) {
    Change change{to.of(node.inputs), node.attrs};
    const Change before = change;
    changes(to, node, change);
    changed = changed || change.inputs != before.inputs || !(change.attrs == before.attrs);
    to.copy(node, change.inputs, change.attrs);
  }
  EXPECT_TRUE(changed);
  return to.finish();
}

ValueId found(const Graph& graph, const std::string& name) {
  const ValueId id = graph.find(name);
  EXPECT_GE(id, 0) << name;
  return id;
}

Attrs set(const Attrs& attrs, Attr key, std::int64_t value) { return without(attrs, {key}).set(key, value); }

Attrs set(const Attrs& attrs, Attr key, std::vector<std::int64_t> value) {
  return without(attrs, {key}).set(key, std::move(value));
}

ValueId number(Rewriter& to, float value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return to.to().constant(owned_weight(to.unique("number"), DType::F32, {}, std::move(bytes)));
}

void expect_refused(const Planted& fault) {
  const auto made = recognize_decoder(fault.graph, false);
  ASSERT_FALSE(made) << fault.what;
  EXPECT_EQ(made.error().code, Code::unsupported) << fault.what;
  EXPECT_NE(made.error().message.find(fault.said), std::string::npos) << fault.what << ": " << made.error().message;
  EXPECT_NE(made.error().message.find("node '"), std::string::npos) << fault.what << ": " << made.error().message;
}

// Of a layer of deepseek-v3: 8 experts in 4 groups, 3 of the best 2 groups are chosen.
TEST(RecogniseExperts, WhatIsNearlyItsRouterIsRefused) {
  const Graph right = exported(golden("deepseek-v3"), 4);
  ASSERT_TRUE(recognize_decoder(right, false));
  const std::string at = "layers.1.mlp.experts/";
  const ValueId scores = found(right, at + "Sigmoid");
  const ValueId corrected = found(right, at + "Add");
  const auto only = [&](const std::string& name, const Changes& change) {
    return with(right, [&](Rewriter& to, const Node& node, Change& made) {
      if (node.name == at + name) change(to, node, made);
    });
  };
  const auto in_other_order = [&](Rewriter& /*to*/, const Node& node, Change& made) {
    if (node.name == at + "Unsqueeze") made.attrs = set(made.attrs, Attr::axes, std::vector<std::int64_t>{1});
    if (node.name == at + "Expand") made.attrs = set(made.attrs, Attr::shape, std::vector<std::int64_t>{4, 2, 4});
  };
  const Planted faults[] = {
      {"the correction in the weights",
       only("GatherElements", [&](Rewriter& to, const Node&, Change& made) { made.inputs[0] = to.of(corrected); }),
       "weights that have the correction in them"},
      {"the chosen groups hidden",
       only("Where", [](Rewriter&, const Node&, Change& made) { std::swap(made.inputs[1], made.inputs[2]); }),
       "hides the groups that were chosen"},
      {"other groups below 0",
       only("Where", [](Rewriter& to, const Node&, Change& made) { made.inputs[2] = number(to, -1); }),
       "leaves -1 where a router has 0"},
      {"groups chosen without the correction",
       only("Reshape_1", [&](Rewriter& to, const Node&, Change& made) { made.inputs[0] = to.of(scores); }),
       "chosen by other scores"},
      {"the best of each group alone",
       only("TopK", [](Rewriter&, const Node&, Change& made) { made.attrs = set(made.attrs, Attr::k, 1); }),
       "takes the 1 best of each group"},
      {"the worst groups",
       only("TopK_1", [](Rewriter&, const Node&, Change& made) { made.attrs = set(made.attrs, Attr::largest, 0); }),
       "something else than the best"},
      {"one group of two experts for three",
       with(right,
            [&](Rewriter& to, const Node& node, Change& made) {
              if (node.name == at + "TopK_1") made.attrs = set(made.attrs, Attr::k, 1);
              if (node.name != at + "ScatterElements") return;
              std::vector<float> ones(4, 1.0F);
              made.inputs[2] = to.to().constant(f32_weight(to.unique("ones"), {4, 1}, ones));
            }),
       "chooses 3 experts of groups that have fewer"},
      {"a mask of every second expert", with(right, in_other_order), "in another order than the experts'"},
      {"normalised by all scores",
       only("ReduceSum_1", [&](Rewriter& to, const Node&, Change& made) { made.inputs[0] = to.of(scores); }), "node '"},
      {"a correction of another shape",
       only("Add",
            [](Rewriter& to, const Node&, Change& made) {
              std::vector<float> each(32, 0.5F);
              each[3] = 0;
              made.inputs[1] = to.to().constant(f32_weight(to.unique("each"), {4, 8}, each));
            }),
       "node '"},
  };
  for (const Planted& fault : faults) expect_refused(fault);
}

TEST(RecogniseExperts, WhatIsNearlyItsExpertsIsRefused) {
  const Graph right = exported(golden("deepseek-v3"), 1);
  ASSERT_TRUE(recognize_decoder(right, false));
  const std::string router = "layers.1.mlp.experts/";
  const std::string at = "layers.1.mlp.routed/";
  const auto others = [&](const std::string& name) {  // chosen without the groups
    return with(right, [&](Rewriter& to, const Node& node, Change& made) {
      if (node.name != at + name) return;
      const auto ids = to.to().nodes(Op::TopK, to.unique("others"), {to.of(found(right, router + "Add"))},
                                     Attrs{}.set(Attr::axis, 1).set(Attr::k, 3).set(Attr::largest, 1));
      made.inputs[1] = ids[1];
    });
  };
  // Of the three experts the first one alone.
  const auto first = with(right, [&](Rewriter& to, const Node& node, Change& made) {
    if (node.name != at + "ReduceSum") return;
    const auto all = std::vector<std::int64_t>{1};
    made.inputs[0] = to.to().node(Op::Slice, to.unique("first"), {to.of(found(right, at + "MatMul_2"))},
                                  Attrs{}
                                      .set(Attr::axes, all)
                                      .set(Attr::starts, std::vector<std::int64_t>{0})
                                      .set(Attr::ends, all)
                                      .set(Attr::steps, all));
  });
  // The same behind a reshape that needs no sum.
  Rewriter to(right);
  for (const Node& node : right.list()) {
    if (node.name != at + "ReduceSum") {
      to.copy(node);
      continue;
    }
    const auto one = std::vector<std::int64_t>{1};
    const ValueId cut = to.to().node(Op::Slice, to.unique("first"), {to.of(found(right, at + "MatMul_2"))},
                                     Attrs{}
                                         .set(Attr::axes, one)
                                         .set(Attr::starts, std::vector<std::int64_t>{0})
                                         .set(Attr::ends, one)
                                         .set(Attr::steps, one));
    to.replace(node.outputs[0], to.to().node(Op::Reshape, to.unique("row"), {cut},
                                             Attrs{}.set(Attr::shape, std::vector<std::int64_t>{1, 1, 64})));
  }
  const Planted faults[] = {
      {"the last matrices of others", others("Transpose"), "results of other experts than the weights are for"},
      {"the gates of others", others("Transpose_2"), "gates and ups of other experts than the weights are for"},
      {"no weights",
       with(right,
            [&](Rewriter& rewriter, const Node& node, Change& made) {
              if (node.name == at + "ReduceSum") made.inputs[0] = rewriter.of(found(right, at + "MatMul_2"));
            }),
       "node '"},
      {"a sum of one", first, "node '"},
      {"one expert without a sum", to.finish(), "matrices of chosen experts for something else than a sum of them"},
  };
  for (const Planted& fault : faults) expect_refused(fault);
}

TEST(RecogniseExperts, WhatIsNearlyALatentIsRefused) {
  const Graph right = imported(open("deepseek-v2-groups-dynamo"), 3, 0);
  ASSERT_TRUE(recognize_decoder(right, false));
  const Uses uses(right);
  const auto of_values = [&](const Node& node) {
    const int maker = node.op == Op::MatMul ? uses.maker[static_cast<std::size_t>(node.inputs[0])] : -1;
    return maker >= 0 && right.list()[static_cast<std::size_t>(maker)].op == Op::Softmax &&
           right.value(node.inputs[1]).dims.size() == 4;
  };
  const auto values_by = [&](const std::vector<std::int32_t>& columns) {
    return with(right, [&](Rewriter& to, const Node& node, Change& made) {
      if (!of_values(node)) return;
      std::vector<std::byte> bytes(columns.size() * sizeof(std::int32_t));
      std::memcpy(bytes.data(), columns.data(), bytes.size());
      const ValueId index =
          to.to().constant(owned_weight(to.unique("columns"), DType::I32, {std::ssize(columns)}, std::move(bytes)));
      made.inputs[1] =
          to.to().node(Op::Gather, to.unique("moved"), {made.inputs[1], index}, Attrs{}.set(Attr::axis, 3));
    });
  };
  expect_refused({"values in another order", values_by({0, 2, 1, 3, 4, 5}), "values of something else than the keys'"});
  // The same in its order.
  const auto same = recognize_decoder(values_by({0, 1, 2, 3, 4, 5}), false);
  EXPECT_TRUE(same) << same.error().message;
}

// What a recognition could forget of a router.
std::function<void(const Node&, std::vector<ValueId>&, Attrs&)> forgotten;

Result<Graph> forgetful(const Graph& graph, const PassContext& context) {
  TRY(const Graph made, pass_recognize(graph, context));
  Rewriter to(made);
  for (const Node& node : made.list()) {
    auto inputs = to.of(node.inputs);
    Attrs attrs = node.attrs;
    if (node.op == Op::router) forgotten(node, inputs, attrs);
    to.copy(node, inputs, attrs);
  }
  return to.finish();
}

TEST(RecogniseExperts, TheProofFindsWhatARouterForgot) {
  ThreadPool pool(1);
  PassInfo info = all_passes()[0];
  ASSERT_EQ(info.name, "recognize");
  info.run = forgetful;
  const std::pair<const char*, std::function<void(const Node&, std::vector<ValueId>&, Attrs&)>> faults[] = {
      {"the scale", [](const Node&, std::vector<ValueId>&,
                       Attrs& attrs) { attrs = without(attrs, {Attr::scale}).set(Attr::scale, 1.0); }},
      {"the norm", [](const Node&, std::vector<ValueId>&, Attrs& attrs) { attrs = set(attrs, Attr::norm_topk, 0); }},
      {"the correction", [](const Node&, std::vector<ValueId>& inputs, Attrs&) { inputs.resize(1); }},
      {"the groups", [](const Node&, std::vector<ValueId>&, Attrs& attrs) { attrs = set(attrs, Attr::top_groups, 4); }},
      {"the sigmoid", [](const Node&, std::vector<ValueId>&, Attrs& attrs) { attrs = set(attrs, Attr::score, 0); }},
  };
  const Graph graph = exported(golden("deepseek-v3"), 4);
  for (const auto& [what, fault] : faults) {
    forgotten = fault;
    const auto passed = run_passes(graph, Stage::imported, {.to = Stage::canonical, .prove = true}, pool, {&info, 1});
    ASSERT_FALSE(passed) << what;
    EXPECT_NE(passed.error().message.find("pass recognize: the logits of random ids differs"), std::string::npos)
        << what << ": " << passed.error().message;
  }
}

}  // namespace
}  // namespace knapsack
