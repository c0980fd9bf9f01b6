// What the built-in tables of toolchains make of public models' shapes on built-in devices.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/devices.h"
#include "graph/rewrite.h"
#include "import/golden.h"
#include "plan/inventory.h"

namespace knapsack {
namespace {

using testing::read_file;
using testing::source_dir;

Graph shapes(const std::string& model, std::int64_t tokens, std::int64_t past) {
  const json::object config = *parse_json_object(read_file(source_dir() / "models" / (model + ".json")), model);
  auto imported = import_config(json::serialize(config), model);
  if (!imported) throw std::runtime_error(imported.error().message);
  return decompose(imported->graph, {tokens, past, false});
}

// As a GGUF that stores every matrix so.
Graph stored_as(const Graph& graph, const std::string& format) {
  static constexpr std::byte anything{};
  Rewriter to(graph);
  for (std::size_t id = 0; id < graph.values().size(); ++id) {
    const Value& value = graph.values()[id];
    if (value.kind != ValueKind::constant || !value.name.ends_with(".T")) continue;
    auto weight = std::make_shared<Weight>(*value.weight);
    weight->dtype = *dtype_from_name(format);
    weight->slabs = {&anything};  // read by nothing here
    to.replace(static_cast<ValueId>(id),
               to.to().constant(weight, {.transposed = value.transposed, .as = value.as, .name = value.name}));
  }
  for (const Node& node : graph.list()) to.copy(node);
  return to.finish();
}

const Devices& all() {
  static const Devices devices = *Devices::with_folder("");
  return devices;
}

Inventory take(const Graph& graph, const std::string& device, const std::string& toolchain,
               const InventoryOptions& options = {}) {
  const Device found = *all().find(device);
  const auto table = all().toolchain(toolchain, found.profile.toolchains);
  if (!table) throw std::runtime_error(table.error().message);
  return take_inventory(graph, found.profile, &*table, options);
}

const OperatorRow& row(const Inventory& inventory, Op op) {
  for (const OperatorRow& each : inventory.operators)
    if (each.op == op) return each;
  throw std::runtime_error("no such operator");
}

// The way most of an operator's nodes go.
const Decision& most(const Inventory& inventory, Op op) {
  const OperatorRow& found = row(inventory, op);
  const auto at = std::max_element(found.counts.begin(), found.counts.end()) - found.counts.begin();
  return found.ways[static_cast<std::size_t>(at)];
}

std::vector<std::string> missing(const Inventory& inventory) {
  std::vector<std::string> out;
  for (const Killer& each : inventory.killers)
    if (each.id == "dtype_missing") out.push_back(each.what);
  return out;
}

bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST(Tables, QairtHasRotaryEmbeddingFrom245On) {
  const Graph graph = shapes("qwen2.5-1.5b", 1, 1023);
  const Inventory before = take(graph, "snapdragon-8-gen-3", "qairt@2.41");
  const Decision& neg = most(before, Op::Neg);
  EXPECT_NE(neg.strategy, Strategy::merge);
  EXPECT_TRUE(says(neg.why, "as one RotaryEmbedding from 2.45 on; this is 2.41")) << neg.why;
  EXPECT_TRUE(says(most(before, Op::Softmax).why, "as one GroupQueryAttention from 2.49 on; this is 2.41"));
  EXPECT_TRUE(says(most(before, Op::ReduceMean).why, "bf16 from 2.44 on, this is 2.41"));
  EXPECT_EQ(most(before, Op::ReduceMean).with, "RMSNormalization");  // of every version
  const Inventory then = take(graph, "snapdragon-8-gen-3", "qairt@2.45");
  EXPECT_EQ(most(then, Op::Neg).with, "RotaryEmbedding");
  EXPECT_NE(most(then, Op::Softmax).strategy, Strategy::merge);
  EXPECT_FALSE(says(most(then, Op::ReduceMean).why, "bf16"));
  for (const char* newest : {"qairt", "qairt@2.49"})
    EXPECT_EQ(most(take(graph, "snapdragon-8-gen-3", newest), Op::Softmax).with, "GroupQueryAttention") << newest;
}

// Its rows name the types that are new: that says nothing of the others.
TEST(Tables, QairtListsNewTypesOnly) {
  const Graph graph = stored_as(shapes("qwen2.5-1.5b", 1, 1023), "Q4_0");
  for (const char* version : {"qairt@2.45", "qairt@2.49"})
    EXPECT_TRUE(missing(take(graph, "snapdragon-8-gen-3", version)).empty()) << version;
  EXPECT_EQ(missing(take(graph, "snapdragon-8-gen-1", "qairt")).size(), 1U);  // the NPU itself has no blocks
}

// Rank 5 from 2.39 on: the oldest version the table covers has it.
TEST(Tables, RankByVersion) {
  const Toolchain qairt = *all().toolchain("qairt@2.39");
  EXPECT_FALSE(qairt.before(qairt.op("Cast")->checks[0].before_version));
  Toolchain older = qairt;
  older.at = "2.38";
  EXPECT_TRUE(older.before(older.op("Cast")->checks[0].before_version));
}

TEST(Tables, VelaMeansOverFewerThan4096) {
  const Inventory one = take(shapes("llama-3.2-1b", 16, 0), "ethos-u55", "vela-ethos-u55-u65");  // 2048 columns
  EXPECT_EQ(most(one, Op::ReduceMean).strategy, Strategy::map);
  const Inventory eight = take(shapes("llama-3.1-8b", 16, 0), "ethos-u55", "vela-ethos-u55-u65");
  const Decision& mean = most(eight, Op::ReduceMean);
  EXPECT_EQ(mean.strategy, Strategy::replace);
  EXPECT_EQ(mean.with, "ReduceSum Mul");
  EXPECT_TRUE(says(mean.why, "axis 2 of input 0 is 4096; at most 4095 is taken")) << mean.why;
}

TEST(Tables, VelaSoftmaxByItsRows) {
  // 32 heads: 2047 tokens are 65504 rows, 2048 are 65536.
  EXPECT_EQ(most(take(shapes("llama-3.2-1b", 2047, 0), "ethos-u55", "vela-ethos-u55-u65"), Op::Softmax).strategy,
            Strategy::map);
  const Decision softmax = most(take(shapes("llama-3.2-1b", 2048, 0), "ethos-u55", "vela-ethos-u55-u65"), Op::Softmax);
  EXPECT_EQ(softmax.site, Site::cpu);
  EXPECT_TRUE(says(softmax.why, "is 65536; at most 65535 is taken")) << softmax.why;
}

// Qwen3 has norms of heads: [1, tokens, heads, 128] is reduced along its depth, which wants another dimension of 1.
TEST(Tables, VelaReducesDepthOfFlatTensors) {
  const auto head_norm = [](std::int64_t tokens) {
    const Graph graph = shapes("qwen3-0.6b", tokens, 0);
    const Inventory got = take(graph, "ethos-u55", "vela-ethos-u55-u65");
    for (std::size_t i = 0; i < graph.list().size(); ++i)
      if (graph.list()[i].op == Op::ReduceMean && graph.value(graph.list()[i].inputs[0]).dims.size() == 4)
        return got.nodes[i];
    throw std::runtime_error("no norm of heads");
  };
  EXPECT_EQ(head_norm(1).strategy, Strategy::map);
  EXPECT_EQ(head_norm(16).strategy, Strategy::replace);
  EXPECT_EQ(head_norm(16).with, "the same, reshaped");
  EXPECT_TRUE(says(head_norm(16).why, "the last axis of [1, 16, 16, 128] is reduced")) << head_norm(16).why;
}

// Int8 only, nothing dynamic, and the norm's root is one RSQRT: only the embedding is left to the CPU.
TEST(Tables, EthosU55) {
  const Inventory got = take(shapes("llama-3.2-1b", 1, 511), "ethos-u55", "vela-ethos-u55-u65");
  EXPECT_EQ(most(got, Op::Sqrt).with, "Rsqrt");
  EXPECT_EQ(most(got, Op::MatMul).dtype, "a16w8");
  EXPECT_EQ(got.pieces, 1);
  EXPECT_EQ(row(got, Op::Gather).sites[static_cast<std::size_t>(Site::cpu)], 1);
  const auto types = missing(got);
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0], "a KV cache of 16 bits is not taken: the toolchain takes MatMul at int8");
  EXPECT_TRUE(says(types[1], "weight tensors must be 8-bit"));
  EXPECT_EQ(missing(take(shapes("llama-3.2-1b", 1, 511), "ethos-u55", "vela-ethos-u55-u65", {.kv_bits = 8})).size(),
            1U);
  const Inventory experts = take(shapes("deepseek-v2-lite", 1, 511), "ethos-u55", "vela-ethos-u55-u65");
  for (const Decision& way : row(experts, Op::NonZero).ways) EXPECT_EQ(way.site, Site::cpu);
}

// HTP V68, V69: no blocks of 4 bits, no KV cache of 16; V73, V75, V79 have both.
TEST(Tables, HexagonGenerations) {
  const Graph graph = stored_as(shapes("qwen2.5-1.5b", 1, 1023), "Q4_0");
  for (const char* old : {"snapdragon-888", "snapdragon-8-gen-1"}) {
    const auto types = missing(take(graph, old, "executorch-qnn"));
    ASSERT_EQ(types.size(), 3U) << old;
    EXPECT_TRUE(says(types[0], "fp16 is taken from generation 73 on"));
    EXPECT_TRUE(says(types[1], "a KV cache of 16 bits is not taken: the second input of MatMul has 8 bits before"));
    EXPECT_TRUE(says(types[2], "weights in blocks (197 of Q4_0) are not taken as they are: only a scale a channel"))
        << types[2];
    const Inventory eight = take(graph, old, "executorch-qnn", {.kv_bits = 8});
    EXPECT_EQ(missing(eight).size(), 2U) << old;
    EXPECT_EQ(row(eight, Op::MatMul).ways.front().dtype, "a16w4");  // by channel, on every generation
  }
  for (const char* now : {"snapdragon-8-gen-2", "snapdragon-8-gen-3", "snapdragon-8-elite"}) {
    const Inventory got = take(graph, now, "executorch-qnn");
    EXPECT_TRUE(missing(got).empty()) << now << ": " << missing(got)[0];
    std::vector<std::string> types;
    for (const Decision& way : row(got, Op::MatMul).ways) types.push_back(way.dtype);
    EXPECT_NE(std::find(types.begin(), types.end(), "int16 x int16"), types.end()) << now;
    // ONNX Runtime's provider has neither blocks nor pairs of 16 bits, but fp16.
    const auto other = missing(take(graph, now, "onnxruntime-qnn"));
    ASSERT_EQ(other.size(), 1U) << now;
    EXPECT_TRUE(says(other[0], "the toolchain takes Gemm at")) << other[0];
  }
  const auto pairs = missing(take(graph, "snapdragon-8-gen-1", "onnxruntime-qnn"));
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_TRUE(says(pairs[0], "uint16 x uint8"));
}

TEST(Tables, TypesBetween4And8Bits) {
  const Graph graph = stored_as(shapes("llama-3.2-1b", 1, 511), "Q6_K");
  const Inventory got = take(graph, "snapdragon-8-elite", "executorch-qnn");
  EXPECT_EQ(row(got, Op::MatMul).ways.front().dtype, "a16w8");
  ASSERT_EQ(missing(got).size(), 1U);
  EXPECT_TRUE(says(missing(got)[0], "113 of Q6_K")) << missing(got)[0];
  // OpenVINO reads them, and quantizes them anew.
  const Decision intel = row(take(graph, "core-ultra-7-258v", "openvino-npu"), Op::MatMul).ways.front();
  EXPECT_EQ(intel.dtype, "int4");
  EXPECT_TRUE(says(intel.why, "Q6_K is quantized anew, Q4_0 goes as it is")) << intel.why;
}

// Routing scores are [tokens, experts]: a batch of 16 to RKNN, unless a dimension of 1 is put before.
TEST(Tables, RknnTakesABatchOfOne) {
  const Graph graph = shapes("deepseek-v2-lite", 16, 0);
  const Inventory got = take(graph, "rk3588", "rknn-toolkit2");
  bool router = false;
  for (std::size_t i = 0; i < graph.list().size(); ++i) {
    if (graph.list()[i].op != Op::Softmax) continue;
    const bool routes = graph.list()[i].origin_op == Op::router;
    router = router || routes;
    EXPECT_EQ(got.nodes[i].strategy, routes ? Strategy::replace : Strategy::keep_fp16) << graph.list()[i].name;
    if (routes) {
      EXPECT_TRUE(says(got.nodes[i].why, "the first dimension of input 0 is 16; 1 is taken")) << got.nodes[i].why;
    }
  }
  EXPECT_TRUE(router);
}

TEST(Tables, NeutronTakesMatricesOfTwoDimensions) {
  const Inventory got = take(shapes("qwen2.5-0.5b", 16, 2031), "rk3588", "executorch-neutron-cff6f4dd");
  const Decision& product = most(got, Op::MatMul);
  EXPECT_EQ(product.with, "the same, reshaped");
  EXPECT_TRUE(says(product.why, "input 0 has 3 dimensions; 2 are taken")) << product.why;
  EXPECT_EQ(most(got, Op::Div).with, "Rsqrt");  // its own divides by constants only
  EXPECT_TRUE(says(most(got, Op::Softmax).why, "the last dimension is 2047; at most 2040 is taken"))
      << most(got, Op::Softmax).why;
}

TEST(Tables, AppleCutsTheHead) {
  const Graph graph = shapes("llama-3.2-1b", 1, 511);
  const Inventory got = take(graph, "apple-m4", "coreml-ane");
  const Decision& head = got.nodes.back();
  EXPECT_EQ(graph.list().back().op, Op::MatMul);
  EXPECT_EQ(head.with, "8 products of parts of the matrix");  // 128256 columns of 16384 at most
  EXPECT_EQ(head.dtype, "a16w4");
  // The execution provider multiplies by constants only.
  const Inventory provider = take(graph, "apple-m4", "onnxruntime-coreml");
  for (std::size_t i = 0; i < graph.list().size(); ++i)
    if (graph.list()[i].op == Op::MatMul && graph.list()[i].origin_op == Op::attention) {
      EXPECT_EQ(provider.nodes[i].site, Site::cpu);
      EXPECT_EQ(provider.nodes[i].why, "input 1 is computed; a constant is taken");
    }
}

TEST(Tables, MlaAsExportersWriteItKeepsTooMuch) {
  const Inventory got = take(shapes("deepseek-v2-lite", 1, 511), "snapdragon-8-gen-3", "executorch-qnn");
  const auto found = std::find_if(got.killers.begin(), got.killers.end(),
                                  [](const Killer& each) { return each.id == "mla_expanded"; });
  ASSERT_NE(found, got.killers.end());
  EXPECT_EQ(found->count, 27);
  EXPECT_TRUE(says(found->what, "5120 numbers a token and layer, where the latent and what is rotated are 576"))
      << found->what;  // 16 heads x (128 + 64 + 128); 512 + 64
}

// Every device with an NPU and each of its tables, on a dense model and one with experts: it holds together.
TEST(Tables, EveryDeviceHasAReport) {
  std::vector<Graph> graphs;
  for (const char* model : {"qwen2.5-1.5b", "llama-3.2-1b"}) graphs.push_back(shapes(model, 1, 255));
  int reports = 0;
  for (const std::string& id : all().ids()) {
    if (id == "host") continue;
    const Device device = *all().find(id);
    for (const std::string& chain : device.profile.toolchains) {
      const Toolchain table = *all().toolchain(chain);
      for (const Graph& graph : graphs) {
        const Inventory got = take_inventory(graph, device.profile, &table);
        ASSERT_EQ(got.nodes.size(), graph.list().size());
        for (const Decision& d : got.nodes) {
          EXPECT_FALSE(d.why.empty());
          EXPECT_EQ(d.site == Site::cpu, d.strategy == Strategy::cpu) << d.why;
          EXPECT_FALSE(d.strategy == Strategy::replace && d.with.empty()) << d.why;
        }
        ++reports;
      }
    }
  }
  EXPECT_GT(reports, 100);
}

}  // namespace
}  // namespace knapsack
