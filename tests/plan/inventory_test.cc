// What the inventory decides, by toolchains made up for each case; the model is a golden Llama.
#include "plan/inventory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "import/golden.h"
#include "plan/inventory_text.h"
#include "plan/primitive_values.h"

namespace knapsack {
namespace {

Graph llama(std::int64_t tokens, std::int64_t past) {
  auto imported = import_model(testing::data_path("golden/llama-llama3rope").string(), {});
  if (!imported) throw std::runtime_error(imported.error().message);
  return decompose(imported->graph, {tokens, past});
}

DeviceProfile device(std::optional<std::int64_t> generation = {}) {
  DeviceProfile profile;
  profile.npu.emplace();
  profile.npu->generation = generation;
  return profile;
}

OpSupport entry(std::string name, Support support, std::string constraint = {}) {
  OpSupport out;
  out.name = std::move(name);
  out.support = support;
  out.dtypes = {"int8", "fp16"};
  out.constraint = std::move(constraint);
  out.source = "a test";
  return out;
}

// All operators of a Llama are taken.
Toolchain willing() {
  Toolchain out;
  for (const char* name : {"MatMul", "Add", "Mul", "Div", "Pow", "Sqrt", "ReduceMean", "Softmax", "Sigmoid", "Neg",
                           "Reshape", "Transpose", "Concat", "Slice", "Unsqueeze", "Expand", "Gather", "ScatterND"})
    out.ops.push_back(entry(name, Support::yes));
  return out;
}

OpSupport& of(Toolchain& toolchain, const std::string& name) {
  for (OpSupport& each : toolchain.ops)
    if (each.name == name) return each;
  throw std::runtime_error("no " + name);
}

const OperatorRow& row(const Inventory& inventory, Op op) {
  for (const OperatorRow& each : inventory.operators)
    if (each.op == op) return each;
  throw std::runtime_error("no such operator");
}

const Killer* killer(const Inventory& inventory, std::string_view id) {
  for (const Killer& each : inventory.killers)
    if (each.id == id) return &each;
  return nullptr;
}

TEST(Inventory, WhatIsTakenIsOnePiece) {
  const Toolchain toolchain = willing();
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(got.pieces, 1);
  EXPECT_EQ(got.tiny_pieces, 0);
  EXPECT_EQ(got.crossings.copies, 0);
  EXPECT_EQ(got.crossings_time.us, 0.0);
  EXPECT_EQ(row(got, Op::Sin).ways.front().strategy, Strategy::precompute);
  EXPECT_EQ(row(got, Op::Softmax).ways.front().strategy, Strategy::keep_fp16);
  EXPECT_EQ(row(got, Op::Softmax).ways.front().dtype, "fp16");
  EXPECT_EQ(row(got, Op::Sigmoid).ways.front().dtype, "int8");
  ASSERT_NE(killer(got, "kv_concat"), nullptr);
  EXPECT_EQ(killer(got, "kv_concat")->count, 3 * 2);  // layers, K and V
  EXPECT_NE(killer(got, "rope_sin_cos"), nullptr);
  EXPECT_NE(killer(got, "infinite_mask"), nullptr);
  EXPECT_NE(killer(got, "int64_indices"), nullptr);
  EXPECT_EQ(killer(got, "dynamic_dims"), nullptr);
  const Inventory prefill = take_inventory(llama(5, 0), device(), &toolchain);
  EXPECT_EQ(killer(prefill, "kv_concat"), nullptr);
}

TEST(Inventory, RefusedWithoutEquivalentLeavesTheNpu) {
  Toolchain toolchain = willing();
  of(toolchain, "Sigmoid") = entry("Sigmoid", Support::no, "not in the list");
  const Graph graph = llama(1, 7);
  const Inventory got = take_inventory(graph, device(), &toolchain);
  const OperatorRow& sigmoid = row(got, Op::Sigmoid);
  EXPECT_EQ(sigmoid.sites[static_cast<std::size_t>(Site::cpu)], 3);
  EXPECT_EQ(sigmoid.ways.front().why, "not in the list");
  EXPECT_EQ(sigmoid.ways.front().source, "a test");
  // gate of 160 float16 columns out and back, in each of three layers; before, between and behind them: four pieces.
  EXPECT_EQ(sigmoid.cost.to_cpu_bytes, 3 * 160 * 2);
  EXPECT_EQ(sigmoid.cost.to_npu_bytes, 3 * 160 * 2);
  EXPECT_EQ(sigmoid.cost.copies, 6);
  EXPECT_EQ(got.crossings.copies, 6);
  EXPECT_EQ(got.pieces, 4);
  EXPECT_NE(inventory_text("decode", graph, got).find("960 B out, 960 B back, 6 copies  not in the list"),
            std::string::npos);
  EXPECT_FALSE(got.crossings_time.us);  // no link in the profile
  EXPECT_FALSE(got.crossings_time.at_least_us);
  EXPECT_FALSE(got.unknown.empty());
}

TEST(Inventory, CostInMicroseconds) {
  Toolchain toolchain = willing();
  of(toolchain, "Sigmoid").support = Support::no;
  DeviceProfile profile = device();
  LinkProfile link;
  link.between = {UnitKind::cpu, UnitKind::npu};
  link.latency_us = Number{.value = 10, .source = "a test"};
  profile.links.push_back(link);
  const auto time = [&](const InventoryOptions& options = {}) {
    return take_inventory(llama(1, 7), profile, &toolchain, options).crossings_time;
  };
  EXPECT_FALSE(time().us);  // nor a bandwidth
  EXPECT_NEAR(time().at_least_us.value(), 6 * 10, 1e-9);
  profile.links[0].bandwidth_gb_per_s = Number{.value = 1, .source = "a test"};
  EXPECT_NEAR(time().us.value(), 6 * 10 + 6 * 320 / 1e3, 1e-9);
  EXPECT_EQ(time().at_least_us, time().us);
  EXPECT_NEAR(time({.link_latency_us = 1}).us.value(), 6 * 1 + 6 * 320 / 1e3, 1e-9);  // the user knows better
  // Without a latency, what the bytes take at least: over the link, or over memory that both share.
  profile.links[0].latency_us.reset();
  EXPECT_FALSE(time().us);
  EXPECT_NEAR(time().at_least_us.value(), 6 * 320 / 1e3, 1e-9);
  profile.links[0].shared_memory = Flag{.value = true, .source = "a test"};
  EXPECT_FALSE(time().at_least_us);  // the memory's bandwidth is not known
  profile.memory.theoretical_gb_per_s = Number{.value = 4, .source = "a test"};
  EXPECT_FALSE(time().us);
  EXPECT_NEAR(time().at_least_us.value(), 6 * 320 / 4e3, 1e-9);
  EXPECT_NEAR(time({.link_latency_us = 20}).us.value(), 6 * 20 + 6 * 320 / 4e3, 1e-9);
  const Inventory at_least = take_inventory(llama(1, 7), profile, &toolchain);
  EXPECT_NEAR(row(at_least, Op::Sigmoid).times.front().at_least_us.value(), 6 * 320 / 4e3, 1e-9);
  EXPECT_NE(inventory_text("decode", llama(1, 7), at_least).find("6 copies, at least 0.48 us"), std::string::npos);
}

TEST(Inventory, RefusedWithEquivalentIsReplaced) {
  Toolchain toolchain = willing();
  of(toolchain, "Neg").support = Support::no;
  of(toolchain, "Div").support = Support::no;  // and no Reciprocal is listed
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, Op::Neg).ways.front().strategy, Strategy::replace);
  EXPECT_EQ(row(got, Op::Neg).ways.front().with, "Mul");
  EXPECT_EQ(row(got, Op::Div).ways.front().strategy, Strategy::cpu);
}

TEST(Inventory, MergesIntoWhatTheToolchainHas) {
  Toolchain toolchain = willing();
  toolchain.ops.push_back(entry("RMSNormalization", Support::yes));
  toolchain.ops.push_back(entry("Silu", Support::yes));
  of(toolchain, "Pow").support = Support::no;
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, Op::Pow).ways.front().strategy, Strategy::merge);
  EXPECT_EQ(row(got, Op::Pow).ways.front().with, "RMSNormalization");
  EXPECT_EQ(row(got, Op::Sigmoid).ways.front().with, "Silu");
  EXPECT_EQ(got.pieces, 1);
}

TEST(Inventory, KvIsWrittenByTheHostWhereNoScatterIs) {
  Toolchain toolchain = willing();
  of(toolchain, "ScatterND") = entry("ScatterND", Support::partial, "runs as CPU op");
  of(toolchain, "ScatterND").on_cpu = true;
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  for (const Decision& way : row(got, Op::Concat).ways)
    EXPECT_TRUE(way.strategy != Strategy::replace || way.with == "a write by the host");
  EXPECT_EQ(got.pieces, 1);
}

TEST(Inventory, GenerationsLackTypes) {
  Toolchain toolchain = willing();
  OpSupport& matmul = of(toolchain, "MatMul");
  matmul = entry("MatMul", Support::partial, "16-bit second input needs V73+");
  matmul.checks.push_back({.rule = CheckRule::second_input_bits, .value = 8, .before_generation = 73});
  of(toolchain, "Softmax").fp16_since_generation = 73;
  const auto missing = [](const Inventory& inventory) {
    return std::count_if(inventory.killers.begin(), inventory.killers.end(), [](const Killer& each) {
      return each.id == "dtype_missing" && each.what.find("blocks") == std::string::npos;
    });
  };
  const Inventory old = take_inventory(llama(1, 7), device(68), &toolchain);
  EXPECT_EQ(missing(old), 2);
  EXPECT_EQ(row(old, Op::Softmax).ways.front().dtype, "int8");
  const Inventory now = take_inventory(llama(1, 7), device(75), &toolchain);
  EXPECT_EQ(missing(now), 0);
  EXPECT_EQ(row(now, Op::Softmax).ways.front().dtype, "fp16");
  EXPECT_EQ(missing(take_inventory(llama(1, 7), device(68), &toolchain, {.kv_bits = 8})), 1);  // fp16 alone
}

// What a graph decides of a constraint is decided: the shape that breaks it is said, and what can be done about it.
TEST(Inventory, ChecksOfShapes) {
  const auto expand = [](OpCheck check) {
    Toolchain toolchain = willing();
    OpSupport& support = of(toolchain, "Expand");
    support = entry("Expand", Support::partial, "a constraint");
    support.checks.push_back(std::move(check));
    return row(take_inventory(llama(2, 7), device(70), &toolchain), Op::Expand).ways.front();
  };
  // [1, 2, 1, 9, 16] -> [1, 2, 2, 9, 16]
  const Decision four = expand({.rule = CheckRule::max_rank, .value = 4});
  EXPECT_EQ(four.strategy, Strategy::replace);
  EXPECT_EQ(four.why,
            "input 0 has 5 dimensions; at most 4 are taken: between Reshapes that drop leading dimensions of 1");
  const Decision three = expand({.rule = CheckRule::max_rank, .value = 3});
  EXPECT_EQ(three.strategy, Strategy::replace);
  EXPECT_EQ(three.with, "Concat");  // an equivalent
  EXPECT_EQ(expand({.rule = CheckRule::max_rank, .value = 5}).why, "taken (a constraint)");
  EXPECT_EQ(expand({.rule = CheckRule::max_expanded_axes, .value = 1}).strategy, Strategy::map);
  EXPECT_NE(expand({.rule = CheckRule::max_elements, .value = 287}).why.find("elements is 288; at most 287"),
            std::string::npos);
  EXPECT_EQ(expand({.rule = CheckRule::max_elements, .value = 288}).strategy, Strategy::map);
  EXPECT_NE(expand({.rule = CheckRule::batch, .value = 2}).why.find("first dimension of input 0 is 1; 2 is taken"),
            std::string::npos);
  EXPECT_NE(expand({.rule = CheckRule::no_broadcast}).why.find("output 0 has another shape"), std::string::npos);
  EXPECT_EQ(expand({.rule = CheckRule::input_type, .types = {"float16"}}).strategy, Strategy::map);
  EXPECT_NE(expand({.rule = CheckRule::input_type, .types = {"float32"}}).why.find("input 0 is float16"),
            std::string::npos);
  EXPECT_EQ(expand({.rule = CheckRule::static_shape}).strategy, Strategy::map);
  // Of an older generation only.
  EXPECT_EQ(expand({.rule = CheckRule::max_rank, .value = 4, .before_generation = 69}).strategy, Strategy::map);
  EXPECT_NE(expand({.rule = CheckRule::max_rank, .value = 4, .before_generation = 73}).why.find("this is 70"),
            std::string::npos);
}

TEST(Inventory, WhatNoGraphDecidesStaysACondition) {
  Toolchain toolchain = willing();
  of(toolchain, "Concat").condition = "all inputs share quantization parameters";
  const Inventory got = take_inventory(llama(5, 0), device(), &toolchain);
  for (const Decision& way : row(got, Op::Concat).ways)
    if (way.strategy != Strategy::precompute) {
      EXPECT_EQ(way.why, "taken on a condition: all inputs share quantization parameters");
    }
}

TEST(Inventory, OneOverTheRootIsOneOperator) {
  Toolchain toolchain = willing();
  of(toolchain, "Sqrt").support = Support::no;
  of(toolchain, "Pow").support = Support::no;  // x to the 0.5 would do
  EXPECT_EQ(row(take_inventory(llama(1, 7), device(), &toolchain), Op::Sqrt).ways.front().site, Site::cpu);
  toolchain.ops.push_back(entry("Rsqrt", Support::yes));
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  for (const Op op : {Op::Sqrt, Op::Div}) {
    EXPECT_EQ(row(got, op).ways.front().strategy, Strategy::merge);
    EXPECT_EQ(row(got, op).ways.front().with, "Rsqrt");
  }
  EXPECT_EQ(got.pieces, 1);
}

TEST(Inventory, WhatIsNotKnownStaysUnknown) {
  const Inventory none = take_inventory(llama(1, 7), device(), nullptr);
  EXPECT_EQ(row(none, Op::Softmax).ways.front().site, Site::unknown);
  EXPECT_FALSE(none.unknown.empty());
  Toolchain toolchain = willing();
  std::erase_if(toolchain.ops, [](const OpSupport& each) { return each.name == "Softmax"; });
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, Op::Softmax).ways.front().strategy, Strategy::unknown);
  EXPECT_EQ(got.not_listed, std::vector<std::string>{"Softmax"});
}

TEST(Inventory, WithoutAnNpuNothingIsDecided) {
  const Graph graph = llama(1, 7);
  const Inventory got = take_inventory(graph, DeviceProfile{}, nullptr);
  EXPECT_FALSE(got.has_npu);
  EXPECT_EQ(row(got, Op::Softmax).ways.front().site, Site::cpu);
  EXPECT_EQ(killer(got, "dtype_missing"), nullptr);
  EXPECT_NE(killer(got, "kv_concat"), nullptr);  // no compiler of graphs likes it
  EXPECT_TRUE(got.unknown.empty());
  const std::string text = inventory_text("decode", graph, got);
  EXPECT_EQ(text.find("NPU"), std::string::npos) << text;
  EXPECT_NE(text.find("can be precomputed"), std::string::npos);
}

// By node, and what many share said once.
TEST(Inventory, JsonIsByNode) {
  const Toolchain toolchain = willing();
  const Graph graph = llama(1, 7);
  const Inventory got = take_inventory(graph, device(), &toolchain);
  const json::object all = inventory_json(graph, got);
  const json::array& nodes = all.at("nodes").as_array();
  ASSERT_EQ(nodes.size(), graph.list().size());
  const auto decisions = static_cast<std::int64_t>(all.at("decisions").as_array().size());
  const auto tensors = static_cast<std::int64_t>(all.at("tensors").as_array().size());
  EXPECT_EQ(tensors, static_cast<std::int64_t>(graph.values().size()));
  EXPECT_LT(decisions, 20);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const json::object& node = nodes[i].as_object();
    EXPECT_EQ(node.at("name").as_string(), graph.list()[i].name);
    const std::int64_t number = node.at("decision").as_int64();
    ASSERT_TRUE(number >= 0 && number < decisions);
    EXPECT_EQ(all.at("decisions").as_array()[static_cast<std::size_t>(number)].at("why").as_string(), got.nodes[i].why);
    const std::int64_t output = node.at("outputs").as_array()[0].as_int64();
    ASSERT_TRUE(output >= 0 && output < tensors);
    EXPECT_EQ(all.at("tensors").as_array()[static_cast<std::size_t>(output)].at("bytes").as_int64(),
              value_bytes(graph.value(graph.list()[i].outputs[0])));
  }
  const json::object one = inventory_json(graph, got, 1);
  EXPECT_EQ(one.at("operators"), all.at("operators"));     // of the whole
  EXPECT_EQ(one.at("nodes").as_array().size(), 68 + 27U);  // decompose_test counts both
}

TEST(Inventory, ExpertsAreDynamic) {
  auto imported = import_model(testing::data_path("golden/deepseek-v2-lite").string(), {});
  ASSERT_TRUE(imported);
  Toolchain toolchain = willing();
  toolchain.traits.push_back(entry("dynamic_shape", Support::no, "fixed shapes"));
  const Inventory got = take_inventory(decompose(imported->graph, {1, 7}), device(), &toolchain);
  ASSERT_NE(killer(got, "dynamic_dims"), nullptr);
  EXPECT_EQ(row(got, Op::NonZero).ways.front().site, Site::cpu);
}

}  // namespace
}  // namespace knapsack
