// Graphs legalized for devices of the catalog, by their toolchains' tables.
#include "pipeline/device_target.h"

#include <gtest/gtest.h>

#include <map>

#include "device/devices.h"
#include "import/golden.h"
#include "passes/pass.h"
#include "plan/inventory.h"

namespace knapsack {
namespace {

const Devices& all() {
  static const Devices devices = *Devices::with_folder("");
  return devices;
}

Target target_of(const std::string& device, const std::string& toolchain = "") {
  const Device found = *all().find(device);
  const auto& names = found.profile.toolchains;
  if (toolchain.empty() && names.empty()) return device_target(found.profile, nullptr);
  const Toolchain table = *all().toolchain(toolchain.empty() ? names.front() : toolchain, names);
  return device_target(found.profile, &table);
}

Passed passed(const std::string& name, const Target& target) {
  auto imported = import_model(testing::data_path("golden/" + name).string(), {});
  if (!imported) throw std::runtime_error(imported.error().message);
  ThreadPool pool(1);
  PassOptions options;
  options.context.step.ctx = 32;
  options.context.target = target;
  options.prove = true;
  options.proof.tolerance = 1e-5;
  auto made = run_passes(imported->graph, Stage::imported, options, pool);
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

std::map<std::string, int> units(const Graph& graph) {
  std::map<std::string, int> units;
  for (const Node& node : graph.list()) ++units[node.unit];
  return units;
}

std::map<Op, int> counts(const Graph& graph) {
  std::map<Op, int> counts;
  for (const Node& node : graph.list()) ++counts[node.op];
  return counts;
}

// Every table: proved, each node on a unit, and what it has as one operator is one.
TEST(DeviceTarget, EveryToolchainOfTheCatalog) {
  std::map<std::string, std::string> devices;  // one for each toolchain
  for (const std::string& id : all().ids()) {
    const auto device = all().find(id);
    if (!device || !device->profile.npu) continue;
    for (const std::string& chain : device->profile.toolchains) devices.emplace(chain, id);
  }
  EXPECT_GE(devices.size(), 8U);
  for (const auto& [chain, id] : devices) {
    const Target target = target_of(id, chain);
    ASSERT_TRUE(target.has != nullptr && target.judge != nullptr) << chain;
    const Passed made = passed("qwen2-tied-gqa", target);
    const auto where = units(made.graph);
    EXPECT_EQ(where.count(""), 0U) << chain;
    EXPECT_TRUE(verify(made.graph, Stage::partitioned)) << chain;
    EXPECT_GT(where.count("npu"), 0U) << chain;
    const Toolchain table = *all().toolchain(chain, {chain});
    const auto yes = [&](std::string_view op) {
      const OpSupport* row = table.op(op);
      return row != nullptr && row->support == Support::yes && !table.before(row->since_version) && !row->on_cpu;
    };
    EXPECT_EQ(counts(made.graph)[Op::rms_norm] > 0, yes("RMSNormalization")) << chain;
    EXPECT_EQ(counts(made.graph)[Op::attention] > 0, yes("GroupQueryAttention") || yes("Attention")) << chain;
    EXPECT_EQ(counts(made.graph)[Op::rope_cached] > 0, yes("RotaryEmbedding")) << chain;
    std::printf("%s (%s): %zu nodes, %d on the NPU, %d on the CPU\n", chain.c_str(), id.c_str(),
                made.graph.list().size(), where.count("npu") > 0 ? where.at("npu") : 0,
                where.count("cpu") > 0 ? where.at("cpu") : 0);
  }
}

// An operator that the inventory says is replaced by others is, where the rewriting is written.
TEST(DeviceTarget, WhatIsRefusedIsWrittenOtherwise) {
  const Device device = *all().find("rk3588");
  const Toolchain table = *all().toolchain(device.profile.toolchains.front(), device.profile.toolchains);
  const Passed made = passed("qwen2-tied-gqa", device_target(device.profile, &table));
  const Inventory inventory = take_inventory(made.graph, device.profile, &table);
  for (std::size_t i = 0; i < inventory.nodes.size(); ++i) {
    const Node& node = made.graph.list()[i];
    if (!op_info(node.op).primitive) continue;
    EXPECT_EQ(node.unit == "cpu", inventory.nodes[i].site == Site::cpu) << node.name;
  }
}

// An op that stays whole is held to what its parts would be: a dimension past the device's longest.
TEST(DeviceTarget, WhatIsWholeIsCheckedByItsParts) {
  Device device = *all().find("rk3588");
  const Toolchain table = *all().toolchain(device.profile.toolchains.front(), device.profile.toolchains);
  const auto sums = [&](std::int64_t longest) {
    device.profile.npu->limits.tensor_dim = Count{.value = longest, .source = "a test"};
    const Passed made = passed("qwen2-tied-gqa", device_target(device.profile, &table));
    int cpu = 0;
    for (const Node& node : made.graph.list()) cpu += node.op == Op::add && node.unit == "cpu" ? 1 : 0;
    EXPECT_EQ(counts(made.graph)[Op::add], 6);
    return cpu;
  };
  EXPECT_EQ(sums(1024), 0);
  EXPECT_EQ(sums(63), 6) << "rows have 64 columns";
}

TEST(DeviceTarget, WhatTheProfileSays) {
  const Device device = *all().find("rk3588");
  const Target target = target_of("rk3588");
  EXPECT_EQ(target.name, "rk3588");
  EXPECT_EQ(target.weight_line, 128);
  if (device.profile.npu->sram_bytes) {
    EXPECT_EQ(target.on_chip_bytes, device.profile.npu->sram_bytes->value);
  }
  // Without an NPU everything runs on the CPU, and nothing is taken apart.
  const Passed made = passed("qwen2-tied-gqa", target_of("core-i9-14900k"));
  EXPECT_EQ(units(made.graph), (std::map<std::string, int>{{"cpu", static_cast<int>(made.graph.list().size())}}));
  EXPECT_GT(counts(made.graph)[Op::fused_linear], 0);
}

}  // namespace
}  // namespace knapsack
