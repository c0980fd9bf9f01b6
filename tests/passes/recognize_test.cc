// Decoders that other programs exported to ONNX, recognised: the values are PyTorch's, the graph is the one that
// importing the checkpoint gives, and what is not quite a decoder's is not taken for one.
#include "passes/recognize/recognize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "export/onnx.h"
#include "graph/rewrite.h"
#include "import/golden.h"
#include "import/onnx.h"
#include "import/onnx_run.h"
#include "passes/pass.h"
#include "passes/recognize/samples.h"
#include "passes/recognize_cases.h"
#include "tensor/half.h"

namespace knapsack {
namespace {

using namespace recognition_tests;
using testing::data_path;
using testing::golden_names;
using testing::TempDir;

const char* const decoders[] = {"llama-prefill", "qwen2-window", "qwen2-optimum", "phi3", "qwen2-moe", "qwen3-dynamo",
                                "gemma3-dynamo", "deepseek-v2-dynamo", "deepseek-v2-groups-dynamo", "deepseek-v3",
                                "deepseek-v3-dynamo",
                                // With ONNX Runtime's own operators.
                                "llama-genai", "qwen2-genai-f16", "qwen3-genai-int4", "qwen2-fused", "qwen2-kept"};

Graph without_op(const Graph& graph, Op op, Op other) {
  Rewriter to(graph);
  for (const Node& node : graph.list()) {
    if (node.op == op) {
      to.replace(node.outputs[0], to.node(node, other, to.of(node.inputs), node.attrs));
    } else {
      to.copy(node);
    }
  }
  return to.finish();
}

double relative_l2(std::span<const float> a, std::span<const float> b) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(error / norm);
}

const NpyArray& array(const NpzFile& file, const std::string& name) {
  const auto at =
      std::find_if(file.arrays.begin(), file.arrays.end(), [&](const NpyArray& a) { return a.name == name; });
  if (at == file.arrays.end()) throw std::runtime_error("no array " + name);
  return *at;
}

class Recognise : public ::testing::TestWithParam<const char*> {};

TEST_P(Recognise, GivesPyTorchsLogits) {
  ThreadPool pool(1);
  const Export file = open(GetParam());
  const auto made = recognize_decoder(imported(file), true);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(verify(made->graph, Stage::canonical));
  for (const Node& node : made->graph.list()) EXPECT_FALSE(op_info(node.op).primitive) << node.name;
  EXPECT_EQ(made->graph.find("logits"), made->graph.output());
  // All tokens one by one; PyTorch saw the last ones in one step, behind a cache.
  const NpyArray& ids = array(file.values, "ids");
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(ids.elements()));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(ids.integer_at(static_cast<std::int64_t>(i)));
  const auto logits = run_decoder(made->graph, tokens, 1, std::ssize(tokens), pool);
  ASSERT_TRUE(logits) << logits.error().message;
  const NpyArray& expected = array(file.values, "logits");
  std::vector<float> wanted(static_cast<std::size_t>(expected.elements()));
  expected.floats_at(0, wanted);
  const double off = relative_l2(wanted, std::span(*logits).last(wanted.size()));
  std::printf("%s: %zu nodes, relative L2 %.1e\n", GetParam(), made->graph.list().size(), off);
  EXPECT_LE(off, std::string_view(GetParam()).ends_with("-f16") ? 2e-3 : 2e-6);
}

TEST_P(Recognise, IsProvedWithAnySizesAndTheRestOfThePassesGoesOn) {
  ThreadPool pool(1);
  const Export file = open(GetParam());
  const std::set<std::string_view> whole{"llama-prefill", "deepseek-v2-groups-dynamo", "deepseek-v3"};
  const std::set<std::string_view> by_hits{"qwen2-moe", "deepseek-v3"};  // experts take the rows that chose them
  const std::set<std::string_view> whole_keys{"deepseek-v2-dynamo", "deepseek-v3-dynamo"};
  const bool cached = whole.count(GetParam()) == 0;
  // Its mask is written for one token, or for a prompt.
  const bool one = std::string_view(GetParam()) == "qwen2-genai-f16";
  for (const auto& [wanted, past] : {std::pair<std::int64_t, std::int64_t>{2, 9}, {3, 1}, {5, 4}}) {
    const std::int64_t tokens = one ? 1 : wanted;
    const Graph graph = imported(file, tokens, cached ? past : 0);
    PassOptions options{.context = {.step = {.tokens = 1, .ctx = 16}}, .prove = true};
    const auto passed = run_passes(graph, Stage::imported, options, pool);
    ASSERT_TRUE(passed) << passed.error().message;
    EXPECT_EQ(passed->passes[0].name, "recognize");
    if (by_hits.count(GetParam()) > 0) {  // no program
      EXPECT_LT(passed->passes[0].rel_l2, 0);
      EXPECT_NE(passed->passes[0].note.find("not proved"), std::string::npos) << passed->passes[0].note;
    } else {
      EXPECT_GE(passed->passes[0].rel_l2, 0);
      EXPECT_LE(passed->passes[0].rel_l2, one ? 2e-3 : 2e-6);
      const std::string& note = passed->passes[0].note;
      EXPECT_EQ(note.rfind("latent attention stays with whole keys and values", 0) == 0,
                whole_keys.count(GetParam()) > 0)
          << note;
      if (whole_keys.count(GetParam()) == 0) {
        EXPECT_EQ(note, "");
      }
    }
    const StepSize own{.tokens = tokens, .ctx = tokens + (cached ? past : 0)};
    EXPECT_EQ(passed->passes[0].step, own) << "bytes before and after are of one step";
    EXPECT_LT(passed->passes[0].bytes_after, passed->passes[0].bytes_before);
    EXPECT_EQ(passed->passes[0].bytes_after, bytes_moved(recognize_decoder(graph, true)->graph, own));
    EXPECT_EQ(passed->passes[1].step, options.context.step);
    EXPECT_LE(passed->passes.back().nodes_after, passed->passes[0].nodes_before / 4);
    EXPECT_TRUE(verify(passed->graph, Stage::fused));
  }
}

// Its mask is larger than a constant of the file may be, and its angles are many.
TEST(Recognise, APrefillOfManyTokens) {
  const Graph graph = imported(open("llama-prefill"), 700, 0);
  const auto made = recognize_decoder(graph, false);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->tokens, 700);
  EXPECT_EQ(node_lines(made->graph),
            node_lines(recognize_decoder(imported(open("llama-prefill"), 3, 0), false)->graph));
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Recognise, ::testing::ValuesIn(decoders), name_of);

// A prompt whose caches have no rows yet.
TEST(Recognise, CachesWithoutRows) {
  ThreadPool pool(1);
  for (const char* name : {"qwen2-optimum", "qwen3-dynamo", "llama-genai", "qwen3-genai-int4"}) {
    const Export file = open(name);
    const NpyArray& ids = array(file.values, "ids");
    const auto made = recognize_decoder(imported(file, ids.elements(), 0), true);
    ASSERT_TRUE(made) << name << ": " << made.error().message;
    EXPECT_EQ(made->past, 0);
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < ids.elements(); ++i) tokens.push_back(static_cast<std::int32_t>(ids.integer_at(i)));
    const auto logits = run_decoder(made->graph, tokens, 1, std::ssize(tokens), pool);
    ASSERT_TRUE(logits) << logits.error().message;
    const NpyArray& expected = array(file.values, "logits");
    std::vector<float> wanted(static_cast<std::size_t>(expected.elements()));
    expected.floats_at(0, wanted);
    EXPECT_LE(relative_l2(wanted, std::span(*logits).last(wanted.size())), 2e-6) << name;
    const auto behind = recognize_decoder(imported(file, 2, 9), true);
    ASSERT_TRUE(behind) << name << ": " << behind.error().message;
    EXPECT_EQ(node_lines(made->graph), node_lines(behind->graph)) << name;
  }
}

// Frequencies come exactly out of tables that the file has, also out of ones that are too long to be computed with.
TEST(Recognise, TablesOfAnyLength) {
  Export file = open("llama-genai");
  const auto frequencies = [](const Graph& graph) {
    const Weight& w = *graph.value(graph.find("rope.inv_freq")).weight;
    return std::vector<float>(w.f32(), w.f32() + w.elements());
  };
  const auto made = recognize_decoder(imported(file), true);
  ASSERT_TRUE(made) << made.error().message;
  const auto wanted = frequencies(made->graph);
  ASSERT_EQ(wanted.size(), 8U);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(wanted[i], static_cast<float>(1 / std::pow(10000.0F, static_cast<float>(i) / 8))) << i;
  constexpr std::int64_t rows = 40000;
  std::map<std::string, std::vector<float>> tables;
  for (OnnxTensor& tensor : file.model.graph.initializers) {
    if (tensor.name != "cos_cache" && tensor.name != "sin_cache") continue;
    std::vector<float>& table = tables[tensor.name];
    for (std::int64_t p = 0; p < rows; ++p)
      for (const float frequency : wanted) {
        const float angle = static_cast<float>(p) * frequency;
        table.push_back(tensor.name == "cos_cache" ? std::cos(angle) : std::sin(angle));
      }
    tensor.dims = {rows, 8};
    tensor.data = std::as_bytes(std::span(table));
  }
  ASSERT_EQ(tables.size(), 2U);
  const auto longer = recognize_decoder(imported(file), true);
  ASSERT_TRUE(longer) << longer.error().message;
  EXPECT_EQ(frequencies(longer->graph), wanted);
  EXPECT_EQ(to_text(longer->graph), to_text(made->graph));
}

// Weights in blocks of 4 bits stay what they are, where their scales are halves; else they are floats, and that is
// said.
TEST(Recognise, BlocksOf4BitsStay) {
  Export file = open("qwen3-genai-int4");
  const auto products_of = [&](DType dtype, std::size_t notes) {
    const auto import = graph_from_onnx(file.model, pins_from(file.values.arrays, file.model));
    ASSERT_TRUE(import) << import.error().message;
    EXPECT_EQ(import->notes.size(), notes);
    const auto made = recognize_decoder(import->graph, true);
    ASSERT_TRUE(made) << made.error().message;
    int products = 0;
    for (const Node& node : made->graph.list()) {
      if (node.op != Op::linear) continue;
      EXPECT_EQ(made->graph.value(node.inputs[1]).dtype, dtype) << node.name;
      ++products;
    }
    EXPECT_EQ(products, 15);
  };
  products_of(DType::F32, 1);
  std::vector<std::vector<float>> rounded;
  for (OnnxTensor& tensor : file.model.graph.initializers) {
    if (!tensor.name.ends_with("_scales")) continue;
    std::vector<float>& scales = rounded.emplace_back(tensor.data.size() / sizeof(float));
    std::memcpy(scales.data(), tensor.data.data(), tensor.data.size());
    for (float& each : scales) each = half_to_float(float_to_half(each));
    tensor.data = std::as_bytes(std::span(scales));
  }
  EXPECT_EQ(rounded.size(), 15U);
  products_of(DType::G4, 0);
}

TEST(Recognise, IsTheGraphOfTheCheckpoint) {
  auto checkpoint = import_model(data_path("golden/qwen2-window").string(), {});
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto made = recognize_decoder(imported(open("qwen2-window"), 2, 9), true);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(node_lines(made->graph), node_lines(checkpoint->graph));
  int weights = 0;
  for (const Value& v : made->graph.values()) {
    if (v.kind != ValueKind::constant) continue;
    const Value& other = checkpoint->graph.value(checkpoint->graph.find(v.name));
    ASSERT_EQ(other.dtype, v.dtype) << v.name;
    ASSERT_EQ(other.weight->shape, v.weight->shape) << v.name;
    EXPECT_EQ(std::memcmp(other.weight->slabs[0], v.weight->slabs[0], static_cast<std::size_t>(v.weight->bytes())), 0)
        << v.name;
    ++weights;
  }
  EXPECT_GT(weights, 25);
}

// What export writes, read again: the caches are written by index there.
class OurExport : public ::testing::TestWithParam<bool> {};
TEST_P(OurExport, ComesBack) {
  ThreadPool pool(1);
  const bool contrib = GetParam();
  const std::vector<std::int32_t> ids{3, 9, 4, 30, 17, 8, 9, 2, 21, 5};
  double furthest = 0;
  int models = 0;
  for (const std::string& name : golden_names()) {
    auto model = import_model(data_path("golden/" + name).string(), {});
    ASSERT_TRUE(model) << model.error().message;
    const auto& nodes = model->graph.list();
    const auto has = [&](const std::function<bool(const Node&)>& what) {
      return std::any_of(nodes.begin(), nodes.end(), what);
    };
    // Columns are put in another order once for all products that want it so.
    // Gemma's norms come back with the one in their weights.
    const bool other = has([](const Node& n) { return n.op == Op::gather_cols || n.attrs.f(Attr::offset, 0) != 0; });
    TempDir folder;
    const OnnxExportOptions options{.ctx = 16, .chunk = 4, .contrib = contrib};
    const auto written =
        export_onnx(model->graph, folder.path().string(), options, [](std::uint64_t, std::uint64_t) {});
    ASSERT_TRUE(written) << name << ": " << written.error().message;
    for (const char* which : {"prefill.onnx", "decode.onnx"}) {
      auto back = import_onnx(folder.file(which), {});
      ASSERT_TRUE(back) << name << ": " << back.error().message;
      const auto made = recognize_decoder(back->graph, true);
      ASSERT_TRUE(made) << name << ", " << which << ": " << made.error().message;
      const auto wanted = run_decoder(model->graph, ids, 1, std::ssize(ids), pool);
      const auto logits = run_decoder(made->graph, ids, 1, std::ssize(ids), pool);
      ASSERT_TRUE(wanted && logits) << name;
      const double off = relative_l2(*wanted, *logits);
      furthest = std::max(furthest, off);
      EXPECT_LE(off, 2e-6) << name << ", " << which;
      std::map<Op, int> before;
      std::map<Op, int> after;
      for (const Node& node : nodes) {
        if (node.op == Op::gather_cols) continue;
        ++before[node.op];
        EXPECT_GE(made->graph.find(node.name), 0) << name << ": " << node.name;
      }
      for (const Node& node : made->graph.list())
        if (node.op != Op::gather_cols) ++after[node.op];
      EXPECT_EQ(after, before) << name << ", " << which;
      if (!other) {
        EXPECT_EQ(differences(made->graph, model->graph), "") << name << ", " << which;
      }
    }
    ++models;
  }
  EXPECT_GE(models, 26);
  std::printf("%d models, the largest relative L2 is %.1e\n", models, furthest);
}
INSTANTIATE_TEST_SUITE_P(Ops, OurExport, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "contrib" : "primitive"; });

// Heads on rows of their own, and a mean that runs along the rows in the place of the columns.
TEST(Recognise, AMeanOverHeadsIsNoNormOfThem) {
  const Graph right = imported(open("qwen3-genai-int4"), 2, 9);
  ASSERT_TRUE(recognize_decoder(right, false));
  Rewriter to(right);
  int changed = 0;
  for (const Node& node : right.list()) {
    const auto& dims = right.value(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).dims;
    if (node.op == Op::ReduceMean && dims == std::vector<std::int64_t>{1, 4, 16}) {
      to.copy(node, to.of(node.inputs), Attrs().set(Attr::axes, std::vector<std::int64_t>{1}).set(Attr::keepdims, 1));
      ++changed;
    } else {
      to.copy(node);
    }
  }
  EXPECT_EQ(changed, 2);
  const auto made = recognize_decoder(to.finish(), false);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("q_norm"), std::string::npos) << made.error().message;
}

// Graphs that are nearly a decoder's: left as they are, with the node and what is wrong.
TEST(Recognise, WhatIsNearlyADecoderIsNotTakenForOne) {
  ThreadPool pool(1);
  const Graph right = imported(open("qwen2-window"), 2, 9);
  ASSERT_TRUE(recognize_decoder(right, false));
  const auto with_mask = [&](std::int64_t row, std::int64_t column, std::uint8_t visible) {
    Rewriter to(right);
    for (const Node& node : right.list()) {
      auto inputs = node.inputs;
      std::vector<ValueId> made = to.of(inputs);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Value& v = right.value(inputs[i]);
        if (v.kind != ValueKind::constant || v.dtype != DType::BOOL || v.dims.size() != 4 || v.cols() != 11) continue;
        std::vector<std::byte> bytes(v.weight->slabs[0], v.weight->slabs[0] + v.weight->bytes());
        bytes[static_cast<std::size_t>(row * 11 + column)] = std::byte{visible};
        made[i] = to.to().constant(owned_weight(to.unique("mask"), DType::BOOL, v.dims, std::move(bytes)));
      }
      to.copy(node, made, node.attrs);
    }
    return to.finish();
  };
  const Planted faults[] = {
      {"rotation without a minus", without_op(right, Op::Neg, Op::Identity), "no rotation"},
      {"a tanh for a sigmoid", without_op(right, Op::Sigmoid, Op::Tanh), "no op has"},
      {"a log for a root", without_op(right, Op::Sqrt, Op::Log), "mean square"},
      {"cosines for sines", without_op(right, Op::Sin, Op::Cos), "rotation"},
      {"a mask with a hole", with_mask(1, 9, 0), "holes"},
      {"a mask that sees ahead", with_mask(0, 10, 1), "after"},
  };
  for (const Planted& fault : faults) {
    const auto made = recognize_decoder(fault.graph, false);
    ASSERT_FALSE(made) << fault.what;
    EXPECT_EQ(made.error().code, Code::unsupported) << fault.what;
    EXPECT_NE(made.error().message.find(fault.said), std::string::npos) << fault.what << ": " << made.error().message;
    EXPECT_NE(made.error().message.find("node '"), std::string::npos) << fault.what << ": " << made.error().message;
    PassOptions options{.to = Stage::canonical};
    const auto passed = run_passes(fault.graph, Stage::imported, options, pool);
    ASSERT_TRUE(passed) << fault.what << ": " << passed.error().message;
    EXPECT_EQ(passed->passes[0].nodes_after, passed->passes[0].nodes_before);
    EXPECT_NE(passed->passes[0].note.find(fault.said), std::string::npos) << fault.what;
  }
}

TEST(Recognise, EncodersAndPicturesStayAsTheyAre) {
  ThreadPool pool(1);
  for (const char* name : {"bert", "bert-dynamo", "vit", "resnet", "mobilenet-trained"}) {
    const Graph graph = imported(open(name));
    const auto made = recognize_decoder(graph, false);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, Code::unsupported);
    const auto passed = run_passes(graph, Stage::imported, {.to = Stage::canonical}, pool);
    ASSERT_TRUE(passed) << name << ": " << passed.error().message;
    EXPECT_NE(passed->passes[0].note, "") << name;
  }
}

// A recognition that is wrong in one number is found by the proof.
Result<Graph> wrong_scale(const Graph& graph, const PassContext& context) {
  TRY(const Graph made, pass_recognize(graph, context));
  Rewriter to(made);
  for (const Node& node : made.list()) {
    Attrs attrs = node.attrs;
    if (node.op == Op::attention)
      attrs = without(node.attrs, {Attr::scale}).set(Attr::scale, 1.01 * node.attrs.f(Attr::scale));
    to.copy(node, to.of(node.inputs), attrs);
  }
  return to.finish();
}

TEST(Recognise, TheProofFindsAWrongScale) {
  ThreadPool pool(1);
  PassInfo info = all_passes()[0];
  ASSERT_EQ(info.name, "recognize");
  info.run = wrong_scale;
  const PassOptions options{.to = Stage::canonical, .prove = true};
  const auto passed = run_passes(imported(open("qwen2-window"), 2, 9), Stage::imported, options, pool, {&info, 1});
  ASSERT_FALSE(passed);
  EXPECT_NE(passed.error().message.find("pass recognize: the logits of random ids differs"), std::string::npos)
      << passed.error().message;
}

using namespace recognition;

TEST(Samples, KnowFunctionsByTheirValues) {
  const Samples& x = activation_points();
  EXPECT_EQ(as_activation(through(x, [](double v) { return v / (1 + std::exp(-v)); })), 0);
  EXPECT_EQ(as_activation(through(x, [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); })), 1);
  EXPECT_EQ(as_activation(through(x, [](double v) { return v / (1 + std::exp(-1.702 * v)); })), std::nullopt);
  EXPECT_EQ(as_activation(x), std::nullopt);
  EXPECT_NEAR(*as_factor(through(x, [](double v) { return -3 * v; })), -3, 1e-12);
  EXPECT_FALSE(as_factor(through(x, [](double v) { return v + 1e-3; })));
  const auto cap = as_softcap(through(x, [](double v) { return 30 * std::tanh(v * 0.25 / 30); }));
  ASSERT_TRUE(cap);
  EXPECT_NEAR(cap->cap, 30, 1e-3);
  EXPECT_NEAR(cap->scale, 0.25, 1e-6);
  EXPECT_FALSE(as_softcap(through(x, [](double v) { return std::atan(v); })));
  const auto root = as_inverse_root(through(square_points(), [](double m) { return 2 / std::sqrt(m + 1e-5); }));
  ASSERT_TRUE(root);
  EXPECT_NEAR(root->eps, 1e-5, 1e-10);
  EXPECT_NEAR(root->factor, 2, 1e-9);
  EXPECT_FALSE(as_inverse_root(through(square_points(), [](double m) { return 1 / (m + 1e-5); })));
}

}  // namespace
}  // namespace knapsack
