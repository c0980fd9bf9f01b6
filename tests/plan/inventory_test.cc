// What the inventory decides, by toolchains made up for each case; the model is a golden Llama.
#include "plan/inventory.h"

#include <gtest/gtest.h>

#include "import/golden.h"

namespace knapsack {
namespace {

PrimitiveGraph llama(std::int64_t tokens, std::int64_t past) {
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

const OperatorRow& row(const Inventory& inventory, OnnxOp op) {
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
  EXPECT_EQ(got.crossings_us, 0.0);
  EXPECT_EQ(row(got, OnnxOp::Sin).ways.front().strategy, Strategy::precompute);
  EXPECT_EQ(row(got, OnnxOp::Softmax).ways.front().strategy, Strategy::keep_fp16);
  EXPECT_EQ(row(got, OnnxOp::Softmax).ways.front().dtype, "fp16");
  EXPECT_EQ(row(got, OnnxOp::Sigmoid).ways.front().dtype, "int8");
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
  const PrimitiveGraph graph = llama(1, 7);
  const Inventory got = take_inventory(graph, device(), &toolchain);
  const OperatorRow& sigmoid = row(got, OnnxOp::Sigmoid);
  EXPECT_EQ(sigmoid.sites[static_cast<std::size_t>(Site::cpu)], 3);
  EXPECT_EQ(sigmoid.ways.front().why, "not in the list");
  EXPECT_EQ(sigmoid.ways.front().source, "a test");
  // gate of 160 float16 columns out and back, in each of three layers; before, between and behind them: four pieces.
  EXPECT_EQ(sigmoid.cost.to_cpu_bytes, 3 * 160 * 2);
  EXPECT_EQ(sigmoid.cost.to_npu_bytes, 3 * 160 * 2);
  EXPECT_EQ(sigmoid.cost.copies, 6);
  EXPECT_EQ(got.crossings.copies, 6);
  EXPECT_EQ(got.pieces, 4);
  EXPECT_FALSE(got.crossings_us);  // no link in the profile
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
  EXPECT_FALSE(take_inventory(llama(1, 7), profile, &toolchain).crossings_us);  // nor a bandwidth
  profile.links[0].bandwidth_gb_per_s = Number{.value = 1, .source = "a test"};
  const Inventory got = take_inventory(llama(1, 7), profile, &toolchain);
  ASSERT_TRUE(got.crossings_us);
  EXPECT_NEAR(*got.crossings_us, 6 * 10 + 6 * 320 / 1e3, 1e-9);
}

TEST(Inventory, RefusedWithEquivalentIsReplaced) {
  Toolchain toolchain = willing();
  of(toolchain, "Neg").support = Support::no;
  of(toolchain, "Div").support = Support::no;  // and no Reciprocal is listed
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, OnnxOp::Neg).ways.front().strategy, Strategy::replace);
  EXPECT_EQ(row(got, OnnxOp::Neg).ways.front().with, "Mul");
  EXPECT_EQ(row(got, OnnxOp::Div).ways.front().strategy, Strategy::cpu);
}

TEST(Inventory, MergesIntoWhatTheToolchainHas) {
  Toolchain toolchain = willing();
  toolchain.ops.push_back(entry("RMSNormalization", Support::yes));
  toolchain.ops.push_back(entry("Silu", Support::yes));
  of(toolchain, "Pow").support = Support::no;
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, OnnxOp::Pow).ways.front().strategy, Strategy::merge);
  EXPECT_EQ(row(got, OnnxOp::Pow).ways.front().with, "RMSNormalization");
  EXPECT_EQ(row(got, OnnxOp::Sigmoid).ways.front().with, "Silu");
  EXPECT_EQ(got.pieces, 1);
}

TEST(Inventory, KvIsWrittenByTheHostWhereNoScatterIs) {
  Toolchain toolchain = willing();
  of(toolchain, "ScatterND") = entry("ScatterND", Support::partial, "runs as CPU op");
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  for (const Decision& way : row(got, OnnxOp::Concat).ways)
    EXPECT_TRUE(way.strategy != Strategy::replace || way.with == "a write by the host");
  EXPECT_EQ(got.pieces, 1);
}

TEST(Inventory, GenerationsLackTypes) {
  Toolchain toolchain = willing();
  OpSupport& matmul = of(toolchain, "MatMul");
  matmul = entry("MatMul", Support::partial, "16-bit second input needs V73+");
  matmul.constrained_before_generation = 73;
  of(toolchain, "Softmax").fp16_since_generation = 73;
  const Inventory old = take_inventory(llama(1, 7), device(68), &toolchain);
  const auto missing = [](const Inventory& inventory) {
    return std::count_if(inventory.killers.begin(), inventory.killers.end(),
                         [](const Killer& each) { return each.id == "dtype_missing"; });
  };
  EXPECT_EQ(missing(old), 2);
  EXPECT_EQ(row(old, OnnxOp::Softmax).ways.front().dtype, "int8");
  const Inventory now = take_inventory(llama(1, 7), device(75), &toolchain);
  EXPECT_EQ(missing(now), 0);
  EXPECT_EQ(row(now, OnnxOp::Softmax).ways.front().dtype, "fp16");
}

TEST(Inventory, WhatIsNotKnownStaysUnknown) {
  const Inventory none = take_inventory(llama(1, 7), device(), nullptr);
  EXPECT_EQ(row(none, OnnxOp::Softmax).ways.front().site, Site::unknown);
  EXPECT_FALSE(none.unknown.empty());
  Toolchain toolchain = willing();
  std::erase_if(toolchain.ops, [](const OpSupport& each) { return each.name == "Softmax"; });
  const Inventory got = take_inventory(llama(1, 7), device(), &toolchain);
  EXPECT_EQ(row(got, OnnxOp::Softmax).ways.front().strategy, Strategy::unknown);
  DeviceProfile no_npu;
  EXPECT_EQ(row(take_inventory(llama(1, 7), no_npu, &toolchain), OnnxOp::Softmax).ways.front().site, Site::cpu);
}

TEST(Inventory, ExpertsAreDynamic) {
  auto imported = import_model(testing::data_path("golden/deepseek-v2-lite").string(), {});
  ASSERT_TRUE(imported);
  Toolchain toolchain = willing();
  toolchain.traits.push_back(entry("dynamic_shape", Support::no, "fixed shapes"));
  const Inventory got = take_inventory(decompose(imported->graph, {1, 7}), device(), &toolchain);
  ASSERT_NE(killer(got, "dynamic_dims"), nullptr);
  EXPECT_EQ(row(got, OnnxOp::NonZero).ways.front().site, Site::cpu);
}

}  // namespace
}  // namespace knapsack
