// `devices` and `bench` end to end: the fields are there and positive. Never how fast anything is.
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::run;

testing::CommandResult knapsack(std::vector<std::string> words) {
  words.insert(words.begin(), binary());
  return run(words);
}

json::object object_of(const testing::CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  auto parsed = parse_json_object(result.out, "stdout");
  EXPECT_TRUE(parsed) << result.out << result.err;
  return parsed ? *parsed : json::object();
}

void expect_machine(const json::object& machine) {
  for (const char* key : {"cpu", "architecture", "features", "cores", "usable_cores", "cpu_quota", "memory_bytes",
                          "memory_limit_bytes", "caches", "read_bandwidth", "peaks"})
    EXPECT_TRUE(machine.contains(key)) << key;
  ASSERT_FALSE(machine.at("read_bandwidth").as_array().empty());
  for (const auto& entry : machine.at("read_bandwidth").as_array()) {
    EXPECT_GE(entry.at("threads").as_int64(), 1);
    EXPECT_GT(entry.at("gb_per_s").to_number<double>(), 0);
  }
  ASSERT_FALSE(machine.at("peaks").as_array().empty());
  for (const auto& entry : machine.at("peaks").as_array()) {
    const auto& type = entry.at("type").as_string();
    EXPECT_TRUE(type == "fp32" || type == "int8") << type;
    EXPECT_FALSE(entry.at("mix").as_string().empty());
    EXPECT_GT(entry.at("gop_per_s").to_number<double>(), 0);
  }
}

TEST(Devices, MeasureJson) {
  const auto machine = object_of(knapsack({"devices", "measure", "--seconds", "0.001", "-t", "2", "--json"}));
  expect_machine(machine);
  EXPECT_EQ(machine.at("read_bandwidth").as_array().size(), 2U);
  EXPECT_EQ(machine.at("read_bandwidth").as_array()[1].at("threads").as_int64(), 2);
}

TEST(Devices, MeasureText) {
  const auto result = knapsack({"devices", "measure", "--seconds", "0.001", "-t", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"cores", "memory read", "fp32 products", "GB/s"})
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(Devices, UsageErrors) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"devices"},
                                                                 {"devices", "guess"},
                                                                 {"devices", "measure", "more"},
                                                                 {"devices", "measure", "--seconds", "0"}}) {
    const auto result = knapsack(words);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace knapsack
