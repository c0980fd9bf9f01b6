// The primitive operators of models as importers build them: how many of each, counted by hand from the models' code,
// and shapes that hold for every architecture there is.
#include "graph/decompose/decompose.h"
#include "graph/shape.h"

#include <gtest/gtest.h>

#include <set>

#include "import/golden.h"
#include "passes/prove.h"

namespace knapsack {
namespace {

using testing::golden_names;
using testing::graph_of;

using Counts = std::map<std::string, int>;

// layer -1: what belongs to none; -2: all.
Counts counts(const Graph& graph, std::int64_t layer) {
  Counts out;
  for (const Node& node : graph.list())
    if (layer == -2 || node.layer() == layer) ++out[std::string(op_info(node.op).text)];
  return out;
}

int total(const Counts& counts) {
  int sum = 0;
  for (const auto& [op, count] : counts) sum += count;
  return sum;
}

const Value& tensor(const Graph& graph, const std::string& name) {
  for (const Value& each : graph.values())
    if (each.name == name) return each;
  throw std::runtime_error("no tensor " + name);
}

using Dims = std::vector<std::int64_t>;

TEST(Decompose, LlamaLayer) {
  // Norms: 2 of Cast Pow ReduceMean Add Sqrt Div Mul Cast Mul. q, k, v: MatMul Reshape Transpose. RoPE: 2 of Mul Slice
  // Slice Neg Concat Mul Add. KV: 2 Concat. Repeated heads: 2 of Unsqueeze Expand Reshape. Attention: Transpose MatMul
  // Mul Add Cast Softmax Cast MatMul Transpose Reshape, MatMul of o_proj, Add. MLP: MatMul MatMul Sigmoid Mul Mul
  // MatMul, Add.
  const Graph graph = graph_of("llama-llama3rope");
  const Counts decode{{"MatMul", 9},     {"Mul", 11},   {"Add", 7},    {"Cast", 6},      {"Pow", 2},
                      {"ReduceMean", 2}, {"Sqrt", 2},   {"Div", 2},    {"Reshape", 6},   {"Transpose", 5},
                      {"Slice", 4},      {"Neg", 2},    {"Concat", 4}, {"Unsqueeze", 2}, {"Expand", 2},
                      {"Softmax", 1},    {"Sigmoid", 1}};
  const Graph one = decompose(graph, {1, 7});
  EXPECT_EQ(counts(one, 1), decode);
  EXPECT_EQ(total(decode), 68);
  Counts prefill = decode;
  prefill["Concat"] = 2;  // nothing to append to
  EXPECT_EQ(counts(decompose(graph, {5, 0}), 1), prefill);
  // Once for all: the embedding; Unsqueeze Cast MatMul Transpose Concat, and Cos Cast Unsqueeze, Sin Cast Unsqueeze; of
  // the mask Reshape Greater Where Unsqueeze Unsqueeze; the last norm's nine; the head.
  EXPECT_EQ(total(counts(one, -1)), 1 + 11 + 5 + 9 + 1);
  EXPECT_EQ(counts(one, -1)["Sin"], 1);
}

TEST(Decompose, QwenLayerHasBiases) {
  const Graph graph = decompose(graph_of("qwen2-tied-gqa"), {1, 7});
  EXPECT_EQ(total(counts(graph, 0)), 68 + 3);
  EXPECT_EQ(counts(graph, 0)["Add"], 7 + 3);
}

TEST(Decompose, GeluAndAllHeads) {
  // Div Erf Add Mul Mul in the place of Sigmoid Mul; no repeated heads.
  EXPECT_EQ(total(counts(decompose(graph_of("llama-mha-gelu"), {1, 7}), 0)), 68 + 3 - 6);
}

TEST(Decompose, FusedMatricesAreSplit) {
  // Phi-3: one MatMul and a Split for q, k and v, and one for gate and up; part of each head is rotated: for q and k a
  // Split before and a Concat behind.
  const Graph graph = decompose(graph_of("phi3-partial"), {1, 7});
  Counts layer = counts(graph, 0);
  EXPECT_EQ(layer["MatMul"], 4 + 2);
  EXPECT_EQ(layer["Split"], 2 + 2);
  EXPECT_EQ(layer["Concat"], 2 + 2 + 2);
}

// From Hugging Face's modeling_deepseek_v3 (attention is V2's, too). Norm 9. q: MatMul. kv_a MatMul Split, norm 9. kv_b
// MatMul Reshape Transpose Split. q: Reshape Transpose Split, pairs apart Reshape Transpose Reshape, rotated 7, Concat.
// k: Reshape Transpose, pairs apart 3, rotated 7, Expand to all heads, Concat. Past: two Concat. Attention: Transpose
// MatMul Mul Add Cast Softmax Cast MatMul; no repeated heads. Transpose Reshape MatMul, Add.
constexpr int mla = 9 + 1 + 2 + 9 + 4 + (3 + 3 + 7 + 1) + (2 + 3 + 7 + 1 + 1) + 2 + 8 + 3 + 1;

TEST(Decompose, DeepSeekLayers) {
  const Graph graph = decompose(graph_of("deepseek-v2-lite"), {1, 7});
  const Counts dense = counts(graph, 0);
  EXPECT_EQ(total(dense), mla + 9 + 6 + 1);  // norm, MLP, Add
  EXPECT_EQ(dense.at("MatMul"), 6 + 3);      // q, kv_a, kv_b, scores, context, o; gate, up, down
  EXPECT_EQ(dense.at("Expand"), 1);
  EXPECT_EQ(dense.at("Concat"), 2 + 2 + 2);  // halves; q and k of their parts; past and now
  EXPECT_EQ(dense.at("Split"), 3);
  // Router: MatMul, Reshape Cast Softmax TopK Cast; Reshape OneHot Transpose Transpose, 17 for each of 8 experts,
  // Reshape; the shared expert 6, Add.
  EXPECT_EQ(total(counts(graph, 1)), mla + 9 + (1 + 5 + 4 + 17 * 8 + 1 + 6 + 1) + 1);
  EXPECT_EQ(counts(graph, 1)["NonZero"], 8);
  EXPECT_EQ(counts(graph, 1)["ScatterND"], 8);
  EXPECT_EQ(counts(graph, 1)["TopK"], 1);
  // V3 takes its queries from a latent, too: MatMul and norm more.
  EXPECT_EQ(total(counts(decompose(graph_of("deepseek-v3"), {1, 7}), 0)), mla + 1 + 9 + 9 + 6 + 1);
}

TEST(Decompose, DeepSeekKeepsKAndVOfAllHeads) {
  // 4 heads: K of 16 and 8 rotated, V of 16, from a latent of 32.
  const Graph graph = decompose(graph_of("deepseek-v2-lite"), {1, 7});
  EXPECT_EQ(tensor(graph, "model.layers.0.self_attn.kv_b_proj.weight.T").dims, (Dims{32, 4 * (16 + 16)}));
  EXPECT_EQ(tensor(graph, "layers.0.attn.kv_b_proj/MatMul").dims, (Dims{1, 1, 128}));
  EXPECT_EQ(tensor(graph, "layers.0.kv.k").dims, (Dims{1, 4, 7, 24}));
  EXPECT_EQ(tensor(graph, "layers.0.kv.v").dims, (Dims{1, 4, 7, 16}));
  EXPECT_EQ(tensor(graph, "layers.0.attn.k_write/Concat").dims, (Dims{1, 4, 8, 24}));
  EXPECT_EQ(tensor(graph, "layers.0.attn.v_write/Concat").dims, (Dims{1, 4, 8, 16}));
  EXPECT_EQ(graph.outputs().size(), 1 + 3 * 2);
  EXPECT_EQ(graph.value(graph.outputs()[1]).dims, (Dims{1, 4, 8, 24}));
  EXPECT_EQ(graph.value(graph.outputs()[2]).dims, (Dims{1, 4, 8, 16}));
}

TEST(Decompose, OfAConfigAloneNoStorageIsKnown) {
  const Graph graph = graph_of("qwen2-tied-gqa");
  EXPECT_EQ(tensor(decompose(graph, {1, 7}), "model.layers.0.mlp.gate_proj.weight.T").dtype, DType::F32);
  EXPECT_FALSE(tensor(decompose(graph, {1, 7}), "model.layers.0.mlp.gate_proj.weight.T").weight->slabs.empty());
  const Graph alone = decompose(graph, {1, 7, false});
  EXPECT_TRUE(tensor(alone, "model.layers.0.mlp.gate_proj.weight.T").weight->slabs.empty());
}

TEST(Decompose, Shapes) {
  const Graph decode = decompose(graph_of("qwen2-tied-gqa"), {1, 7});  // 4 heads of 16, 2 of K and V
  EXPECT_EQ(tensor(decode, "layers.0.kv.k").dims, (Dims{1, 2, 7, 16}));
  EXPECT_EQ(tensor(decode, "layers.0.kv.k").type(), DType::F16);
  EXPECT_EQ(tensor(decode, "layers.0.attn.k_write/Concat").dims, (Dims{1, 2, 8, 16}));
  EXPECT_EQ(tensor(decode, "layers.0.attn.context/Softmax").dims, (Dims{1, 4, 1, 8}));
  EXPECT_EQ(tensor(decode, "layers.0.attn.context/Softmax").type(), DType::F32);
  EXPECT_EQ(tensor(decode, "model.layers.0.mlp.gate_proj.weight.T").dims, (Dims{64, 160}));
  EXPECT_EQ(decode.value(decode.outputs().front()).dims, (Dims{1, 1, 512}));
  EXPECT_EQ(decode.outputs().size(), 1 + 3 * 2);  // and a cache of K and V for each layer
  const Graph prefill = decompose(graph_of("qwen2-tied-gqa"), {5, 0});
  EXPECT_EQ(tensor(prefill, "layers.0.attn.context/Softmax").dims, (Dims{1, 4, 5, 5}));
  EXPECT_EQ(prefill.value(prefill.outputs().front()).dims, (Dims{1, 1, 512}));
}

TEST(Decompose, EveryArchitectureHolds) {
  for (const std::string& name : golden_names()) {
    const Graph graph = graph_of(name);
    for (const DecomposeOptions& options : {DecomposeOptions{1, 31}, DecomposeOptions{9, 0}, DecomposeOptions{3, 4},
                                            DecomposeOptions{.tokens = 1, .kv = KvForm::indexed, .ctx = 16},
                                            DecomposeOptions{.tokens = 5, .kv = KvForm::indexed, .ctx = 16}}) {
      const Graph primitive = decompose(graph, options);
      const auto valid = verify(primitive);
      EXPECT_TRUE(valid) << name << ": " << (valid ? "" : valid.error().message);
      // Every weight of the graph is read.
      std::vector<bool> read(primitive.values().size(), false);
      for (const Node& node : primitive.list())
        for (const int id : node.inputs) read[static_cast<std::size_t>(id)] = true;
      for (std::size_t i = 0; i < read.size(); ++i) {
        EXPECT_TRUE(read[i] || primitive.values()[i].kind != ValueKind::constant)
            << name << ": " << primitive.values()[i].name;
      }
    }
  }
}

Result<std::vector<Value>> infer_of(Op op, const Attrs& attrs, const std::vector<Value>& inputs) {
  std::vector<const Value*> pointers;
  for (const Value& each : inputs) pointers.push_back(&each);
  return infer(op, attrs, pointers);
}

TEST(Decompose, RulesOfOperators) {
  const auto axis = [](std::int64_t at) { return Attrs().set(Attr::axis, at); };
  const auto f16 = [](Dims dims) { return Value{.name = "x", .dtype = DType::F16, .dims = std::move(dims)}; };
  const auto i64 = [](Dims dims) { return Value{.name = "i", .dtype = DType::I64, .dims = std::move(dims)}; };
  const auto dims = [](const Result<std::vector<Value>>& made, std::size_t i = 0) {
    return made ? (*made)[i].dims : Dims{-1};
  };
  EXPECT_EQ(dims(infer_of(Op::MatMul, {}, {f16({1, 4, 3, 8}), f16({4, 8, 5})})), (Dims{1, 4, 3, 5}));
  EXPECT_FALSE(infer_of(Op::MatMul, {}, {f16({3, 8}), f16({7, 5})}));
  EXPECT_EQ(dims(infer_of(Op::Add, {}, {f16({2, 1, 4}), f16({3, 1})})), (Dims{2, 3, 4}));
  EXPECT_FALSE(infer_of(Op::Add, {}, {f16({2}), f16({3})}));
  EXPECT_FALSE(infer_of(Op::Add, {}, {f16({2}), i64({2})}));
  EXPECT_EQ(dims(infer_of(Op::Gather, axis(0), {f16({100, 8}), i64({1, 5})})), (Dims{1, 5, 8}));
  EXPECT_EQ(dims(infer_of(Op::GatherND, {}, {f16({3, 7}), i64({5, 2})})), (Dims{5}));
  EXPECT_EQ(dims(infer_of(Op::ScatterND, {}, {f16({9, 4}), i64({5, 1}), f16({5, 4})})), (Dims{9, 4}));
  EXPECT_FALSE(infer_of(Op::ScatterND, {}, {f16({9, 4}), i64({5, 1}), f16({5, 3})}));
  EXPECT_EQ(dims(infer_of(Op::TopK, axis(1).set(Attr::k, 3), {f16({2, 8})}), 1), (Dims{2, 3}));
  EXPECT_FALSE(infer_of(Op::TopK, axis(1).set(Attr::k, 9), {f16({2, 8})}));
  EXPECT_EQ(dims(infer_of(Op::Split, axis(1).set(Attr::splits, Dims{3, 5}), {f16({2, 8})}), 1), (Dims{2, 5}));
  EXPECT_FALSE(infer_of(Op::Split, axis(1).set(Attr::splits, Dims{3, 4}), {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Reshape, Attrs().set(Attr::shape, Dims{3, 5}), {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Transpose, Attrs().set(Attr::perm, Dims{0, 0}), {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Slice, Attrs().set(Attr::axes, Dims{1}).set(Attr::starts, Dims{0}).set(Attr::ends, Dims{9}),
                        {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Expand, Attrs().set(Attr::shape, Dims{2, 4}), {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Squeeze, Attrs().set(Attr::axes, Dims{1}), {f16({2, 8})}));
  EXPECT_FALSE(infer_of(Op::Concat, axis(0), {f16({2, 8}), f16({2, 7})}));
  const auto found = infer_of(Op::NonZero, Attrs().set(Attr::most, 7), {i64({3, 7})});
  ASSERT_TRUE(found);
  EXPECT_TRUE((*found)[0].dynamic);
  std::vector<Value> after{f16({9, 4}), i64({7})};
  after[1].dynamic = true;
  EXPECT_TRUE((*infer_of(Op::Gather, axis(0), after))[0].dynamic);
}

// What runs: every node but those of the KV cache in primitive operators gives the logits that our ops give.
TEST(Decompose, TheFormThatRunsGivesTheSameLogits) {
  ThreadPool pool(1);
  for (const std::string& name : golden_names()) {
    const Graph graph = graph_of(name);
    for (const std::int64_t tokens : {1, 6}) {
      const DecomposeOptions options{.tokens = tokens, .kv = KvForm::indexed, .ctx = 24, .floats = DType::F32};
      const Graph primitive = decompose(graph, options);
      const auto text = graph_from_text(to_text(primitive));
      ASSERT_TRUE(text) << name << ": " << text.error().message;
      EXPECT_EQ(to_text(*text), to_text(primitive)) << name;
      const auto proof = prove_equal(graph, primitive, {}, pool);
      EXPECT_TRUE(proof) << name << ", " << tokens << " tokens: " << (proof ? "" : proof.error().message);
    }
  }
}

// Each op alone, beside all others as they are.
TEST(Decompose, EachOpAloneGivesTheSameLogits) {
  ThreadPool pool(1);
  for (const std::string& name : golden_names()) {
    const Graph graph = graph_of(name);
    std::set<Op> ops;
    for (const Node& node : graph.list()) ops.insert(node.op);
    for (const Op op : ops) {
      const Graph mixed = decompose(
          graph,
          {.tokens = 3, .kv = KvForm::indexed, .ctx = 16, .floats = DType::F32, .decomposes = [op](const Node& node) {
             return node.op == op;
           }});
      const auto proof = prove_equal(graph, mixed, {}, pool);
      EXPECT_TRUE(proof) << name << ", " << op_info(op).text << ": " << (proof ? "" : proof.error().message);
    }
  }
}

}  // namespace
}  // namespace knapsack
