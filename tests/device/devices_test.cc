#include "device/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "device/data.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::read_file;
using testing::TempDir;
using testing::write_file;

const std::filesystem::path folder = testing::source_dir() / "devices";

Devices built_in() {
  auto all = Devices::with_folder("");
  EXPECT_TRUE(all);
  return *all;
}

// What is built in are the files as they stand there, all of them.
TEST(Devices, BuiltInAreTheFilesOfTheRepository) {
  const auto compare = [](std::span<const DataFile> files, const std::filesystem::path& in) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(in)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".json") || name.ends_with("schema.json")) continue;
      ++count;
      const auto found = std::find_if(files.begin(), files.end(),
                                      [&](const DataFile& file) { return std::string(file.name) + ".json" == name; });
      ASSERT_NE(found, files.end()) << name;
      EXPECT_EQ(found->text.find('\n'), std::string_view::npos) << name;
      const auto ours = parse_json(found->text, name);
      const auto theirs = parse_json(read_file(entry.path()), name);
      ASSERT_TRUE(ours && theirs) << name;
      EXPECT_EQ(*ours, *theirs) << name;
    }
    EXPECT_EQ(files.size(), count);
  };
  compare(device_data(), folder);
  compare(toolchain_data(), folder / "toolchains");
}

TEST(Devices, EveryOneIsFoundByIdAndAlias) {
  const Devices all = built_in();
  ASSERT_GT(all.ids().size(), 100U);
  for (const std::string& id : all.ids()) {
    const auto device = all.find(id);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(device->profile.id, id);
    EXPECT_EQ(device->json.at("id").as_string(), id);
    EXPECT_TRUE(all.unknown_toolchains(device->profile).empty()) << id;
    for (const std::string& chain : device->profile.toolchains) EXPECT_TRUE(all.toolchain(chain)) << chain;
    if (!device->profile.aliases.empty()) {
      EXPECT_EQ(all.find(device->profile.aliases.back())->profile.id, id);
    }
  }
  EXPECT_EQ(all.find("sm8650")->profile.id, "snapdragon-8-gen-3");
  EXPECT_EQ(all.find("RK3588S")->profile.id, "rk3588");
  EXPECT_EQ(all.find("rockchip rk3588")->profile.id, "rk3588");
  EXPECT_EQ(all.find("RK3588")->origin, "");
}

TEST(Devices, AnUnknownOneHasTheThreeNearest) {
  const auto device = built_in().find("rk3558");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, Code::usage);
  EXPECT_NE(device.error().message.find("unknown device 'rk3558'; the nearest are rk3588, "), std::string::npos)
      << device.error().message;
  const auto chain = built_in().toolchain("rknn-toolkit");
  ASSERT_FALSE(chain);
  EXPECT_EQ(chain.error().code, Code::usage);
  EXPECT_NE(chain.error().message.find("the nearest are rknn-toolkit2-2.1.0"), std::string::npos)
      << chain.error().message;
}

TEST(Devices, ToolchainsByWhatStandsBeforeTheVersion) {
  const Devices all = built_in();
  EXPECT_EQ(all.toolchain("qairt")->id, "qairt-2.39-2.49");
  EXPECT_EQ(all.toolchain("RKNN-Toolkit2")->version, "2.1.0");
  EXPECT_FALSE(all.toolchain("executorch"));  // several
  EXPECT_EQ(all.toolchain("executorch", {"executorch-qnn-cff6f4dd"})->id, "executorch-qnn-cff6f4dd");
}

TEST(Devices, ToolchainsOfAVersion) {
  const Devices all = built_in();
  EXPECT_EQ(all.toolchain("qairt")->at, "2.49");  // the newest
  EXPECT_EQ(all.toolchain("qairt@2.41")->at, "2.41");
  EXPECT_EQ(all.toolchain("QAIRT@2.49.1")->at, "2.49.1");
  EXPECT_EQ(all.toolchain("qairt-2.39-2.49@2.39")->at, "2.39");
  EXPECT_EQ(all.toolchain("openvino-npu@2025")->at, "2025");
  EXPECT_EQ(all.toolchain("rknn-toolkit2@2.1.0")->id, "rknn-toolkit2-2.1.0");
  EXPECT_EQ(all.toolchain("executorch@cff6f4dd", {"executorch-qnn-cff6f4dd"})->id, "executorch-qnn-cff6f4dd");
  for (const char* outside : {"qairt@2.38", "qairt@2.5", "qairt@2.50", "qairt@3", "qairt@new", "qairt@"}) {
    const auto chain = all.toolchain(outside);
    ASSERT_FALSE(chain) << outside;
    EXPECT_EQ(chain.error().code, Code::usage);
    EXPECT_NE(chain.error().message.find("there is one of 2.39-2.49 (qairt-2.39-2.49)"), std::string::npos)
        << chain.error().message;
  }
  const auto unknown = all.toolchain("qiart@2.41");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("the nearest are qairt-2.39-2.49, "), std::string::npos);
}

// A user's table of a later version beside ours: the version says which; the newest where none is asked for.
TEST(Devices, SeveralTablesOfOneToolchain) {
  const TempDir own;
  std::filesystem::create_directory(own.path() / "toolchains");
  auto table = *parse_json_object(read_file(folder / "toolchains" / "rknn-toolkit2-2.1.0.json"), "t.json");
  table["id"] = "rknn-toolkit2-2.3.2";
  table["version"] = "2.3.2";
  write_file(own.path() / "toolchains" / "rknn-toolkit2-2.3.2.json", json::serialize(table));
  const auto all = Devices::with_folder(own.path().string());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->toolchain("rknn-toolkit2")->id, "rknn-toolkit2-2.3.2");
  EXPECT_EQ(all->toolchain("rknn-toolkit2@2.1.0")->id, "rknn-toolkit2-2.1.0");
  EXPECT_EQ(all->toolchain("rknn-toolkit2", {"rknn-toolkit2-2.1.0"})->id, "rknn-toolkit2-2.1.0");
  EXPECT_EQ(all->toolchain("rknn-toolkit2@2.3.2", {"rknn-toolkit2-2.1.0"})->id, "rknn-toolkit2-2.3.2");
  const std::string file = own.file("toolchains/rknn-toolkit2-2.3.2.json");
  EXPECT_EQ(all->toolchain(file)->id, "rknn-toolkit2-2.3.2");
  EXPECT_EQ(all->toolchain(file + "@2.3.2")->at, "2.3.2");
  EXPECT_FALSE(all->toolchain(file + "@2.1.0"));
  std::filesystem::create_directory(own.path() / "a@b");
  std::filesystem::copy(file, own.path() / "a@b" / "t.json");
  EXPECT_TRUE(all->toolchain(own.file("a@b/t.json")));
  const auto none = all->toolchain("rknn-toolkit2@2.2");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("there are some of "), std::string::npos) << none.error().message;
}

TEST(Devices, TheUsersOwnWin) {
  const TempDir own;
  auto profile = *parse_json_object(read_file(folder / "rk3588.json"), "rk3588.json");
  profile["name"] = "Mine";
  write_file(own.path() / "rk3588.json", json::serialize(profile));
  profile["id"] = "my-board";
  profile["aliases"] = json::array{"the board"};
  write_file(own.path() / "my-board.json", json::serialize(profile));
  write_file(own.path() / "broken.json", "{");
  const auto all = Devices::with_folder(own.path().string());
  ASSERT_TRUE(all);
  EXPECT_EQ(all->find("rk3588")->profile.name, "Mine");
  EXPECT_EQ(all->find("rk3588")->origin, own.file("rk3588.json"));
  EXPECT_EQ(all->find("The Board")->profile.id, "my-board");
  EXPECT_EQ(all->find("rk3576")->profile.id, "rk3576");
  const auto broken = all->find("broken");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::bad_input);
  // A file that is named need lie nowhere.
  EXPECT_EQ(built_in().find(own.file("my-board.json"))->profile.id, "my-board");
  EXPECT_FALSE(built_in().find(own.file("none.json")));
  EXPECT_TRUE(Devices::with_folder(own.file("no-such-folder")));
  write_file(own.path() / "file", "");
  EXPECT_FALSE(Devices::with_folder(own.file("file")));
}

TEST(Devices, HostIsWhatWasKeptOfThisMachine) {
  const TempDir own;
  const Host here = read_host();
  const Peaks peaks{
      .memory = {{.threads = 1, .gb_per_s = 10.5}, {.threads = 2, .gb_per_s = 20.5}},
      .caches = {},
      .compute = {{.mix = "fma", .threads = 2, .gop_per_s = 150},
                  {.mix = "dots", .products = Products::int8, .weight_bits = 8, .threads = 2, .gop_per_s = 900}}};
  const auto bare = Devices::with_folder(own.path().string())->find("host");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(bare->origin, "this machine");
  EXPECT_FALSE(bare->profile.memory.sustained_gb_per_s);
  EXPECT_EQ(bare->profile.kind, DeviceKind::host);

  write_file(own.path() / "host.json", json::serialize(host_profile({.host = here, .peaks = peaks})));
  const auto kept = Devices::with_folder(own.path().string())->find("HOST");
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->origin, own.file("host.json"));
  EXPECT_EQ(kept->profile.memory.sustained_gb_per_s->value, 20.5);
  EXPECT_EQ(kept->profile.cpu->peak("int8")->value, 0.9);
  ASSERT_TRUE(kept->profile.machine);
  EXPECT_EQ(kept->profile.machine->peaks.read(1), 10.5);
  EXPECT_EQ(kept->profile.machine->peaks.fp32(2), 150);
  EXPECT_EQ(kept->profile.machine->host.caches.size(), here.caches.size());

  EXPECT_FALSE(kept->profile.machine->engine);

  EngineSpeed engine{.threads = 2, .load_gb_per_s = 1.5, .attention_gb_per_s = 12.344, .attention_gop_per_s = 140};
  engine.matrices = {{"Q4_0", 576, 30.12345, 473.21}};
  engine.layers = {{576, 3.2877, 0.00061234}};
  write_file(own.path() / "host.json", json::serialize(host_profile({.host = here, .peaks = peaks, .engine = engine})));
  const auto with_engine = Devices::with_folder(own.path().string())->find("host");
  ASSERT_TRUE(with_engine) << with_engine.error().message;
  ASSERT_TRUE(with_engine->profile.machine->engine);
  const EngineSpeed& back = *with_engine->profile.machine->engine;
  EXPECT_EQ(back.threads, 2);
  EXPECT_EQ(back.matrix("Q4_0", 576).decode_gb_per_s, 30.12);  // four digits
  EXPECT_EQ(back.matrix("Q4_0", 576).prefill_gop_per_s, 473.2);
  EXPECT_EQ(back.layer(576).decode_us, 3.288);
  EXPECT_EQ(back.layer(576).prefill_ns, 0.0006123);
  EXPECT_EQ(back.attention_gb_per_s, 12.34);

  Host other = here;
  other.cpu = "Another CPU";
  write_file(own.path() / "host.json", json::serialize(host_profile({.host = other, .peaks = peaks})));
  EXPECT_EQ(Devices::with_folder(own.path().string())->find("host")->origin, "this machine");
}

TEST(Devices, AHostOfWhichLittleIsKnown) {
  const auto profile = read_profile(json::serialize(host_profile({.host = {.architecture = "riscv64"}})), "host");
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_EQ(profile->name, "riscv64");
  EXPECT_FALSE(profile->memory.sizes_bytes);
}

TEST(Toolchains, WhatTheySay) {
  const auto chain = built_in().toolchain("qairt-2.39-2.49");
  ASSERT_TRUE(chain);
  ASSERT_NE(chain->op("RotaryEmbedding"), nullptr);
  EXPECT_EQ(chain->op("RotaryEmbedding")->support, Support::yes);
  EXPECT_EQ(chain->op("RotaryEmbedding")->since_version, "2.45");
  EXPECT_EQ(chain->op("RMSNormalization")->dtypes_since_version.at("bf16"), "2.44");
  ASSERT_EQ(chain->op("Cast")->checks.size(), 2U);
  EXPECT_EQ(chain->op("Cast")->checks[0].before_version, "2.39");
  EXPECT_EQ(chain->base(), "qairt");
  EXPECT_EQ(chain->op("Pad")->source.substr(0, 17), "docs.qualcomm.com");
  EXPECT_EQ(chain->op("NoSuchOperator"), nullptr);
  EXPECT_NE(chain->trait("dynamic_shape"), nullptr);
}

TEST(Toolchains, VersionsAreNumbers) {
  EXPECT_TRUE(version_before("2.9", "2.10"));
  EXPECT_FALSE(version_before("2.10", "2.9"));
  EXPECT_FALSE(version_before("2.45", "2.45.0"));
  EXPECT_TRUE(version_before("2.45", "2.45.1"));
  EXPECT_FALSE(version_before("cff6f4dd", "2.45"));
}

// Whatever a table says of an operator that is taken in part is a check, or a condition that no graph decides.
TEST(Toolchains, NothingPartialWithoutAReason) {
  const Devices all = built_in();
  std::set<CheckRule> rules;
  for (const std::string& id : all.toolchain_ids()) {
    const auto table = all.toolchain(id);
    ASSERT_TRUE(table);
    for (const OpSupport& op : table->ops) {
      for (const OpCheck& check : op.checks) rules.insert(check.rule);
      if (op.support != Support::partial) continue;
      EXPECT_TRUE(!op.checks.empty() || !op.condition.empty() || !op.advice.empty() || !op.written_as.empty() ||
                  !op.within.empty() || op.on_cpu)
          << id << ": " << op.name;
    }
  }
  EXPECT_GT(rules.size(), 20U);
}

TEST(Toolchains, FaultsAreNamed) {
  const auto whole = *parse_json_object(read_file(folder / "toolchains" / "rknn-toolkit2-2.1.0.json"), "t.json");
  const auto refuse = [&](const auto& change, std::string_view words) {
    json::object changed = whole;
    change(changed);
    Toolchain chain;
    const auto faults = check_toolchain(json::serialize(changed), "t.json", chain);
    ASSERT_TRUE(faults);
    ASSERT_EQ(faults->size(), 1U) << words;
    EXPECT_TRUE((faults->at(0).path + ": " + faults->at(0).message).starts_with(words)) << faults->at(0).message;
    EXPECT_FALSE(read_toolchain(json::serialize(changed), "t.json"));
  };
  const auto op = [](json::object& chain, std::size_t i) -> json::object& {
    return chain["ops"].as_array().at(i).as_object();
  };
  refuse([&](json::object& c) { op(c, 0)["support"] = "maybe"; },
         "ops[0].support: is the text 'maybe'; expected one of");
  refuse([&](json::object& c) { op(c, 0)["op"] = "add"; }, "ops[0].op: is 'add'; expected a name of ONNX");
  refuse([&](json::object& c) { op(c, 1)["op"] = op(c, 0)["op"]; }, "ops[1].op: is 'Add' a second time");
  refuse([&](json::object& c) { op(c, 0)["dtypes"] = json::array{"int7"}; }, "ops[0].dtypes: has 'int7'");
  refuse([&](json::object& c) { op(c, 0).erase("source"); }, "ops[0].source: is missing");
  refuse([&](json::object& c) { op(c, 0)["since_version"] = "new"; }, "ops[0].since_version: is 'new'");
  const auto check = [&](json::object& c, json::object entry) { op(c, 0)["checks"] = json::array{std::move(entry)}; };
  refuse(
      [&](json::object& c) {
        check(c, {{"rule", "max_rnak"}, {"value", 4}});
      },
      "ops[0].checks[0].rule: is the text");
  refuse(
      [&](json::object& c) {
        check(c, {{"rule", "max_rank"}});
      },
      "ops[0].checks[0].rule: is max_rank without its value");
  refuse([&](json::object& c) { check(c, {{"rule", "always"}}); }, "ops[0].checks[0].rule: is always without its why");
  refuse(
      [&](json::object& c) {
        check(c, {{"rule", "type_pairs"}, {"types", json::array{}}});
      },
      "ops[0].checks[0].rule: is type_pairs without its types");
  refuse([&](json::object& c) { check(c, {{"rule", "last_axis"}, {"before", 3}}); }, "ops[0].checks[0].before: is not");
  refuse([&](json::object& c) { op(c, 0)["on_cpu"] = "yes"; }, "ops[0].on_cpu: is the text 'yes'; expected true");
  refuse(
      [&](json::object& c) {
        op(c, 0)["dtypes_since_version"] = json::object{{"bf16", "2.44"}};
      },
      "ops[0].dtypes_since_version.bf16: is not among the dtypes");
  refuse(
      [&](json::object& c) {
        op(c, 0)["dtypes_since_version"] = json::object{{"int8", "soon"}};
      },
      "ops[0].dtypes_since_version.int8: is 'soon'");
  refuse([&](json::object& c) { c.erase("traits"); }, "traits: is missing");
  refuse([&](json::object& c) { c["id"] = "RKNN 2"; }, "id: is 'RKNN 2'");
}

}  // namespace
}  // namespace knapsack
