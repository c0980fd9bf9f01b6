#include "device/profile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/support.h"

namespace knapsack {
namespace {

std::string read(const std::filesystem::path& path) {
  auto text = read_text_file(path.string());
  EXPECT_TRUE(text) << (text ? "" : text.error().message);
  return text ? *text : std::string();
}

std::filesystem::path devices() { return std::filesystem::path(testing::source_dir()) / "devices"; }

// "path: message" of each fault.
std::vector<std::string> faults_of(const json::value& value) {
  DeviceProfile profile;
  const auto faults = check_profile(json::serialize(value), "x.json", profile);
  std::vector<std::string> lines;
  EXPECT_TRUE(faults);
  if (faults)
    for (const auto& fault : *faults) lines.push_back(fault.path + ": " + fault.message);
  return lines;
}

// The last key of "a.b.2.c" in it: its place.
json::value& at(json::value& value, std::string_view path) {
  json::value* place = &value;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view key = path.substr(begin, end - begin);
    place =
        place->is_array() ? &place->get_array().at(static_cast<std::size_t>(key[0] - '0')) : &place->get_object()[key];
    begin = end + 1;
  }
  return *place;
}

class Profile : public ::testing::Test {
 protected:
  Profile() : rk3588(*parse_json(read(devices() / "rk3588.json"), "rk3588.json")) {}

  // With `value` at `path` there is one fault, and it begins with these words.
  void refuse(std::string_view path, const json::value& value, std::string_view words) const {
    json::value changed = rk3588;
    at(changed, path) = value;
    const auto faults = faults_of(changed);
    ASSERT_EQ(faults.size(), 1U) << path;
    EXPECT_TRUE(faults[0].starts_with(words)) << faults[0];
  }

  json::value rk3588;
};

TEST_F(Profile, EveryOneOfTheRepository) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(devices())) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json") || name.find("schema") != std::string::npos || name == "efficiency.json") continue;
    const auto profile = read_profile(read(entry.path()), name);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->id + ".json", name);
    ++count;
  }
  EXPECT_GT(count, 100);
}

TEST_F(Profile, WhatItSays) {
  const auto profile = read_profile(json::serialize(rk3588), "rk3588.json");
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->name, "Rockchip RK3588");
  EXPECT_EQ(profile->family, "rockchip");
  EXPECT_EQ(profile->memory.theoretical_gb_per_s->value, 38.4);
  EXPECT_EQ(profile->memory.theoretical_gb_per_s->range, std::pair(34.1, 44.0));
  EXPECT_EQ(profile->memory.theoretical_gb_per_s->kind, FactKind::derived);
  EXPECT_FALSE(profile->memory.sustained_gb_per_s);
  EXPECT_EQ(profile->memory.max_bytes->value, std::int64_t{32} << 30);
  ASSERT_TRUE(profile->cpu);
  ASSERT_EQ(profile->cpu->clusters.size(), 2U);
  EXPECT_EQ(profile->cpu->clusters[0].cores.value, 4);
  EXPECT_EQ(profile->cpu->clusters[0].isa->value.back(), "asimddp");
  const UnitProfile* npu = profile->unit(UnitKind::npu);
  ASSERT_NE(npu, nullptr);
  EXPECT_EQ(npu->peak("int8")->value, 6);
  EXPECT_EQ(npu->peak("bf16"), nullptr);
  EXPECT_TRUE(npu->limits.static_shapes_only->value);
  ASSERT_NE(profile->link(UnitKind::npu, UnitKind::cpu), nullptr);
  EXPECT_TRUE(profile->link(UnitKind::npu, UnitKind::cpu)->shared_memory->value);
  EXPECT_EQ(profile->link(UnitKind::npu, UnitKind::gpu), nullptr);
  EXPECT_EQ(profile->heat.throttle_points.back().celsius.value, 115);
  EXPECT_EQ(profile->toolchains, std::vector<std::string>{"rknn-toolkit2-2.1.0"});
}

TEST_F(Profile, WhatIsWrongIsNamedWithItsPlace) {
  const std::string bandwidth = "memory.bandwidth_gb_per_s.theoretical";
  refuse(bandwidth + ".value", -3, "memory.bandwidth_gb_per_s.theoretical.value: -3 is negative");
  refuse(bandwidth + ".value", 0, "memory.bandwidth_gb_per_s.theoretical.value: 0 is nothing to compute with");
  refuse(bandwidth + ".value", 1e300, "memory.bandwidth_gb_per_s.theoretical.value: 1e+300 is too much");
  refuse(bandwidth + ".value", "38",
         "memory.bandwidth_gb_per_s.theoretical.value: is the text '38'; expected a number");
  refuse(bandwidth + ".value", true, "memory.bandwidth_gb_per_s.theoretical.value: is true; expected a number");
  refuse(bandwidth + ".range", json::array{1, 2}, "memory.bandwidth_gb_per_s.theoretical.range: is [1, 2], which the");
  refuse(bandwidth + ".range", json::array{1}, "memory.bandwidth_gb_per_s.theoretical.range: is an array; expected [");
  refuse(bandwidth + ".kind", "rumour",
         "memory.bandwidth_gb_per_s.theoretical.kind: is the text 'rumour'; expected one");
  refuse(bandwidth + ".source", "", "memory.bandwidth_gb_per_s.theoretical.source: is the text");
  refuse(bandwidth, 38.4, "memory.bandwidth_gb_per_s.theoretical: is 38.4; expected an object with value, kind and");
  refuse("memory.bandwidth_gb_per_s.sustaned", 1,
         "memory.bandwidth_gb_per_s.sustaned: is not known here; did you mean");
  refuse("memory.max_bytes.value", 1.5, "memory.max_bytes.value: is 1.5; expected a whole number");
  refuse("id", "RK 3588", "id: is 'RK 3588'; expected small letters");
  refuse("kind", "phone", "kind: is the text 'phone'; expected one of soc, module, npu_ip, host");
  refuse("colour", "green", "colour: is not known here");
  refuse("memory", 5, "memory: is 5; expected an object");
  refuse("units.tpu", json::object(), "units.tpu: is not known here");
  refuse("units.cpu.clusters.0.cores.value", 2.5, "units.cpu.clusters[0].cores.value: is 2.5; expected a whole number");
  refuse("units.cpu.clusters.1", 7, "units.cpu.clusters[1]: is 7");
  refuse("units.cpu.clusters.0.isa.values", json::array{"A B"}, "units.cpu.clusters[0].isa.values");
  refuse("units.npu.peak_tops", json::object(), "units.npu.peak_tops: is empty");
  refuse("units.npu.peak_tops.int7", 1, "units.npu.peak_tops.int7: is not known here");
  refuse("units.npu.generation", 0, "units.npu.generation: is 0; expected a whole number from 1");
  refuse("units.npu.limits.static_shapes_only.value", 1, "units.npu.limits.static_shapes_only.value: is 1; expected t");
  refuse("links.0.between", json::array{"cpu", "cpu"}, "links[0].between: does not name two units");
  refuse("heat.throttle_points.0.action", "burn", "heat.throttle_points[0].action: is the text 'burn'");
  refuse("toolchains", "rknn", "toolchains: is the text 'rknn'; expected an array");
}

TEST_F(Profile, WhatIsMissing) {
  for (const std::string_view key : {"id", "name", "kind", "memory", "units"}) {
    json::value changed = rk3588;
    changed.get_object().erase(key);
    const auto faults = faults_of(changed);
    ASSERT_EQ(faults.size(), 1U) << key;
    EXPECT_TRUE(faults[0].starts_with(std::string(key) + ": is missing")) << faults[0];
  }
  json::value changed = rk3588;
  at(changed, "memory.bandwidth_gb_per_s.theoretical").get_object().erase("source");
  at(changed, "units.cpu.clusters.0").get_object().erase("cores");
  at(changed, "heat.throttle_points.0").get_object().erase("celsius");
  EXPECT_EQ(faults_of(changed).size(), 3U);
}

TEST_F(Profile, SustainedIsNotMoreThanTheoretical) {
  json::value changed = rk3588;
  json::object more = at(changed, "memory.bandwidth_gb_per_s.theoretical").get_object();
  more.erase("range");
  more["value"] = 50;
  at(changed, "memory.bandwidth_gb_per_s.sustained") = more;
  const auto faults = faults_of(changed);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_TRUE(faults[0].starts_with("memory.bandwidth_gb_per_s.sustained: is 50, more than")) << faults[0];
}

TEST_F(Profile, AnErrorNamesTheFileAndTheFirstFault) {
  json::value changed = rk3588;
  at(changed, "memory.max_bytes.value") = -1;
  at(changed, "colour") = "green";
  const auto profile = read_profile(json::serialize(changed), "my.json");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, Code::bad_input);
  EXPECT_NE(profile.error().message.find("my.json: memory.max_bytes.value: -1 is negative"), std::string::npos);
  EXPECT_NE(profile.error().message.find("; and 1 more: `knapsack devices check`"), std::string::npos);
  EXPECT_FALSE(read_profile("[]", "my.json"));
  EXPECT_FALSE(read_profile("{\"id\":", "my.json"));
}

TEST_F(Profile, AtMostAHundredFaults) {
  json::value changed = rk3588;
  for (int i = 0; i < 1000; ++i) changed.get_object()["k" + std::to_string(i)] = i;
  EXPECT_EQ(faults_of(changed).size(), 100U);
}

// A profile with every key of the schema.
json::value everything(const json::object& schema, const json::object& root) {
  if (const auto* reference = schema.if_contains("$ref")) {
    const std::string_view name = reference->get_string();
    return everything(root.at("$defs").at(name.substr(name.rfind('/') + 1)).get_object(), root);
  }
  if (const auto* values = schema.if_contains("enum")) return values->get_array().at(0);
  const std::string_view type = schema.at("type").get_string();
  if (type == "boolean") return true;
  if (type == "integer" || type == "number") return 1;
  if (type == "string") return "a.json";
  json::object object;
  if (type == "array") {
    json::array items{everything(schema.at("items").get_object(), root)};
    if (const auto* least = schema.if_contains("minItems"); least != nullptr && *least == 2) items.push_back(items[0]);
    return items;
  }
  if (const auto* properties = schema.if_contains("properties"))
    for (const auto& [key, inner] : properties->get_object()) object[key] = everything(inner.get_object(), root);
  if (const auto* more = schema.if_contains("additionalProperties"); more != nullptr && more->is_object())
    object["int8"] = everything(more->get_object(), root);
  return object;
}

TEST_F(Profile, TheReaderKnowsEveryKeyOfTheSchema) {
  const auto schema = parse_json_object(read(devices() / "schema.json"), "schema.json");
  ASSERT_TRUE(schema);
  json::value all = everything(*schema, *schema);
  for (const std::string_view word : {"id", "family", "units.npu.architecture"}) at(all, word) = "a";
  for (const std::string_view words :
       {"units.npu.dtypes.values.0", "units.npu.features.values.0", "units.cpu.clusters.0.isa.values.0"})
    at(all, words) = "a";
  at(all, "links.0.between.1") = "npu";
  at(all, "machine.engine.matrices.0.format") = "Q4_0";
  EXPECT_EQ(faults_of(all), std::vector<std::string>());
}

TEST_F(Profile, AnEngineWithoutSpeedsIsNone) {
  const auto profile = [](std::string_view engine) {
    return fmt::format(R"({{"id": "host", "name": "x", "kind": "host", "memory": {{}}, "units": {{}}, "machine": {{
        "cpu": "x", "architecture": "x", "cores": 1, "usable_cores": 1, "memory_bytes": 1, "memory_limit_bytes": 1,
        "engine": {{"threads": 1, "load_gb_per_s": 1, "attention_gb_per_s": 1, "attention_gop_per_s": 1, {}}}}}}})",
                       engine);
  };
  const std::string layers = R"("layers": [{"hidden": 8, "decode_us": 1, "prefill_ns": 1}])";
  const std::string good =
      R"("matrices": [{"format": "Q4_0", "hidden": 8, "decode_gb_per_s": 1, "prefill_gop_per_s": 1}], )";
  const std::string unknown =
      R"("matrices": [{"format": "Q9", "hidden": 8, "decode_gb_per_s": 1, "prefill_gop_per_s": 1}], )";
  EXPECT_TRUE(read_profile(profile(good + layers), "x"));
  const auto none = read_profile(profile(R"("matrices": [], )" + layers), "x");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("machine.engine.matrices: is empty"), std::string::npos) << none.error().message;
  const auto odd = read_profile(profile(unknown + layers), "x");
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("is 'Q9'"), std::string::npos) << odd.error().message;
}

}  // namespace
}  // namespace knapsack
