// `devices` end to end: the table, one profile with its sources, what is wrong with a profile.
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::object_of;

using testing::TempDir;
using testing::write_file;

// Without a folder of the user's unless the test names one.
testing::CommandResult devices(std::vector<std::string> words, const std::string& folder = "") {
  words.insert(words.begin(), {testing::binary(), "devices"});
  return testing::run(words, "", {"KNAPSACK_DEVICES=" + folder});
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(DevicesList, All) {
  const auto result = devices({});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(devices({"list"}).out, result.out);
  for (const char* part :
       {"NPU TOPS", "rk3588", "38.4", "Snapdragon 8 Gen 3", "host", "rknn-toolkit2-2.1.0", "?: not known"})
    EXPECT_TRUE(has(result.out, part)) << part;
}

TEST(DevicesList, Json) {
  const auto all = object_of(devices({"--json"})).at("devices").as_array();
  EXPECT_GT(all.size(), 100U);
  for (const auto& device : all)
    for (const char* key : {"id", "name", "kind", "vendor", "family", "aliases", "memory_bytes", "bandwidth_gb_per_s",
                            "npu", "npu_tops", "toolchains", "origin"})
      EXPECT_TRUE(device.as_object().contains(key)) << key;
  const auto kirin = object_of(devices({"list", "kirin-9000", "--json"})).at("devices").as_array();
  ASSERT_EQ(kirin.size(), 1U);
  EXPECT_TRUE(kirin[0].at("bandwidth_gb_per_s").is_null());
  EXPECT_TRUE(kirin[0].at("npu_tops").is_null());
}

TEST(DevicesList, OnlySome) {
  const auto result = devices({"list", "SM8650"});
  EXPECT_TRUE(has(result.out, "snapdragon-8-gen-3 "));
  EXPECT_FALSE(has(result.out, "rk3588"));
  const auto with = object_of(devices({"list", "--npu", "--json"})).at("devices").as_array();
  for (const auto& device : with) EXPECT_FALSE(device.at("npu").is_null());
  EXPECT_LT(with.size(), object_of(devices({"--json"})).at("devices").as_array().size());
}

TEST(DevicesShow, EveryFigureHasItsSource) {
  const auto result = devices({"show", "RK3588S"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"rk3588: Rockchip RK3588 (soc, Rockchip)", "memory.bandwidth_gb_per_s.theoretical",
                           "38.4 (34.1 to 44)", "derived", "units.npu.peak_tops.int8", "[1] ", "32.0 GiB",
                           "rknn-toolkit2-2.1.0: RKNN-Toolkit2 2.1.0: ", "What is not listed is not known."})
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
}

TEST(DevicesShow, JsonIsAProfile) {
  const TempDir own;
  const auto result = devices({"show", "snapdragon-8-gen-3", "--json"});
  EXPECT_EQ(object_of(result).at("id").as_string(), "snapdragon-8-gen-3");
  write_file(own.file("mine.json"), result.out);
  const auto check = devices({"check", own.file("mine.json")});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_TRUE(has(check.out, "a good profile of the device snapdragon-8-gen-3")) << check.out;
  EXPECT_EQ(devices({"show", own.file("mine.json"), "--json"}).out, result.out);
  EXPECT_EQ(devices({"show", "mine", "--json"}, own.path().string()).out, result.out);
}

TEST(DevicesShow, AnUnknownOneHasTheNearest) {
  const auto result = devices({"show", "rk3558"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(has(result.err, "knapsack: error: unknown device 'rk3558'; the nearest are rk3588, ")) << result.err;
}

TEST(DevicesCheck, EveryFaultIsNamed) {
  const TempDir own;
  const std::string path = own.file("x.json");
  auto profile = object_of(devices({"show", "rk3588", "--json"}));
  profile["memory"].at("bandwidth_gb_per_s").at("theoretical").as_object()["value"] = -3;
  profile["toolchains"] = json::array{"rknn-toolkit2-2.1.1"};
  profile["colour"] = "green";
  write_file(path, json::serialize(profile));
  const auto result = devices({"check", path});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(has(result.out, "memory.bandwidth_gb_per_s.theoretical.value: -3 is negative; expected 1e-06 to"));
  EXPECT_TRUE(has(result.out, "colour: is not known here"));
  EXPECT_TRUE(has(result.out,
                  "toolchains[0]: there is no table of 'rknn-toolkit2-2.1.1'; the nearest are rknn-toolkit2-2.1.0"));
  EXPECT_TRUE(has(result.err, "x.json: 3 faults")) << result.err;

  const auto as_json = devices({"check", path, "--json"});
  EXPECT_EQ(as_json.exit_code, 3);
  const auto object = object_of(as_json);
  EXPECT_EQ(object.at("valid"), false);
  EXPECT_EQ(object.at("error").at("code").as_int64(), 3);
  ASSERT_EQ(object.at("faults").as_array().size(), 3U);
  EXPECT_EQ(object.at("faults").as_array()[0].at("path").as_string(), "memory.bandwidth_gb_per_s.theoretical.value");

  // Who uses it is told the first of them.
  const auto show = devices({"show", path});
  EXPECT_EQ(show.exit_code, 3);
  EXPECT_TRUE(has(show.err, "x.json: memory.bandwidth_gb_per_s.theoretical.value: -3 is negative")) << show.err;
}

TEST(DevicesCheck, ToolchainsToo) {
  const auto path = testing::source_dir() / "devices" / "toolchains" / "rknn-toolkit2-2.1.0.json";
  const auto object = object_of(devices({"check", path.string(), "--json"}));
  EXPECT_EQ(object.at("valid"), true);
  EXPECT_EQ(object.at("kind").as_string(), "toolchain");
}

TEST(DevicesCheck, WhatIsNoProfileAtAll) {
  const TempDir own;
  for (const char* text : {"", "[]", "{", "{\"id\": 1, \"id\": 2}", "\xff\xfe"}) {
    write_file(own.file("x.json"), text);
    const auto result = devices({"check", own.file("x.json")});
    EXPECT_EQ(result.exit_code, 3) << text;
    EXPECT_TRUE(has(result.err, "x.json: ")) << result.err;
  }
  EXPECT_EQ(devices({"check", own.file("none.json")}).exit_code, 3);
  EXPECT_EQ(devices({"check", own.path().string()}).exit_code, 3);
}

}  // namespace
}  // namespace knapsack
