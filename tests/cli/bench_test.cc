// `devices` and `bench` end to end: the fields are there and positive. Never how fast anything is.
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "kernels/choices.h"
#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::object_of_success;
using testing::run;

testing::CommandResult knapsack(std::vector<std::string> words, const std::vector<std::string>& env = {}) {
  words.insert(words.begin(), binary());
  return run(words, "", env);
}

void expect_machine(const json::object& machine) {
  for (const char* key : {"cpu", "architecture", "features", "cores", "usable_cores", "memory_bytes",
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
  const testing::TempDir own;
  const std::vector<std::string> folder{"KNAPSACK_DEVICES=" + own.file("new/folder")};
  const auto profile =
      object_of_success(knapsack({"devices", "measure", "--seconds", "0.001", "-t", "2", "--json"}, folder));
  EXPECT_EQ(profile.at("id").as_string(), "host");
  EXPECT_GT(profile.at("memory").at("bandwidth_gb_per_s").at("sustained").at("value").to_number<double>(), 0);
  // It is kept, as the device `host`, and a profile that has no fault.
  EXPECT_EQ(object_of_success(knapsack({"devices", "show", "host", "--json"}, folder)), profile);
  EXPECT_EQ(
      object_of_success(knapsack({"devices", "check", own.file("new/folder/host.json"), "--json"}, folder)).at("valid"),
      true);
  const auto& machine = profile.at("machine").as_object();
  expect_machine(machine);
  EXPECT_EQ(machine.at("read_bandwidth").as_array().size(), 2U);
  EXPECT_EQ(machine.at("read_bandwidth").as_array()[1].at("threads").as_int64(), 2);
}

TEST(Devices, MeasureText) {
  const auto result = knapsack({"devices", "measure", "--seconds", "0.001", "-t", "1"}, {"KNAPSACK_DEVICES="});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"cores", "memory read", "fp32 products", "GB/s"})
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  EXPECT_EQ(result.err, "");
}

TEST(Devices, UsageErrors) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"devices", "guess"},
                                                                 {"devices", "show"},
                                                                 {"devices", "check"},
                                                                 {"devices", "show", "rk3588", "--npu"},
                                                                 {"devices", "show", "rk3558"},
                                                                 {"devices", "list", "toaster"},
                                                                 {"devices", "measure", "more"},
                                                                 {"devices", "measure", "--seconds", "0"}}) {
    const auto result = knapsack(words);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Tune, UsageErrors) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"tune", "more"}, {"tune", "--time", "0"}, {"tune", "--isa", "sse"}, {"tune", "--isa", "scalar"}}) {
    const auto result = knapsack(words);
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Tune, AFileThatIsNoTableIsNotWrittenOver) {
  const testing::TempDir folder;
  const std::string file = folder.file("choices");
  testing::write_file(file, "* * one ahead 64\n* * one haste 64\n");
  const auto result = knapsack({"tune", "-o", file, "--time", "0.001"});
  EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
  EXPECT_NE(result.err.find("choices: line 2: "), std::string::npos) << result.err;
  EXPECT_EQ(testing::read_file(file), "* * one ahead 64\n* * one haste 64\n");
}

TEST(Tune, WritesATableThatOtherCommandsRead) {
  if (supported_isas().size() == 1) GTEST_SKIP() << "scalar has nothing to choose";
  const testing::TempDir folder;
  const std::string file = folder.file("choices");
  const auto object = object_of_success(knapsack({"tune", "--isa", std::string(isa_name(supported_isas()[1])), "--time",
                                                  "0.001", "-t", "2", "--json", "-o", file}));
  EXPECT_EQ(object.at("output").as_string(), file);
  EXPECT_FALSE(object.at("choices").as_array().empty());
  for (const auto& entry : object.at("choices").as_array())
    for (const char* key : {"codes", "tokens", "choice", "built_in", "chosen", "noise", "tried"})
      EXPECT_TRUE(entry.as_object().contains(key)) << key;
  const auto table = Choices::read(file);
  ASSERT_TRUE(table) << table.error().message;
  // What is built in need not be said.
  std::size_t chosen = 0;
  for (const auto& entry : object.at("choices").as_array())
    if (entry.as_object().at("chosen") != entry.as_object().at("built_in")) ++chosen;
  EXPECT_EQ(table->lines().size(), chosen);
}

TEST(Tune, MakesTheFolderOfItsTable) {
  if (supported_isas().size() == 1) GTEST_SKIP() << "scalar has nothing to choose";
  const testing::TempDir folder;
  const std::string file = folder.file("config") + "/knapsack/choices";
  const auto result = knapsack({"tune", "--time", "0.001", "-t", "1", "-q", "-o", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Choices::read(file));
}

TEST(Tune, AnOutputThatIsNoFileIsRefusedBeforeAnythingIsMeasured) {
  const testing::TempDir folder;
  for (const std::string& output : {folder.path().string(), std::string("/dev/full"), folder.file("a") + "/"}) {
    const auto result = knapsack({"tune", "--time", "600", "-o", output});
    EXPECT_EQ(result.exit_code, 2) << output << ": " << result.err;
    EXPECT_EQ(result.out, "");
  }
}

const std::string model = testing::data_path("golden/qwen2-tied-gqa").string();

// A short run of everything.
testing::CommandResult bench(std::vector<std::string> words) {
  const std::vector<std::string> brief{"bench", model, "-r", "2", "--peak-seconds", "0.001", "-q"};
  words.insert(words.begin(), brief.begin(), brief.end());
  return knapsack(std::move(words));
}

TEST(Choices, OfAFileAreSaidAndABrokenOneIsAnError) {
  const testing::TempDir folder;
  const std::string file = folder.file("choices");
  const std::vector<std::string> words{binary(), "bench",          model,   "-r",    "1", "-p", "4", "-n",
                                       "0",      "--peak-seconds", "0.001", "--json"};
  testing::write_file(file, "* * many vectors 1\n");
  EXPECT_EQ(object_of_success(run(words, "", {"KNAPSACK_CHOICES=" + file})).at("choices").as_string(), file);
  EXPECT_TRUE(object_of_success(run(words, "", {"KNAPSACK_CHOICES="})).at("choices").is_null());
  testing::write_file(file, "* * many vectors 9\n");
  for (const auto& broken : {words, std::vector<std::string>{binary(), "run", model, "-n", "1", "--ids", "1"}}) {
    const auto result = run(broken, "", {"KNAPSACK_CHOICES=" + file});
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    EXPECT_NE(result.err.find(file + ": line 1: many vectors: expected a number from 1 to 2"), std::string::npos)
        << result.err;
  }
}

struct Case {
  std::string kind;
  std::int64_t prompt, gen, depth, threads;
  bool operator==(const Case&) const = default;
};

std::vector<Case> cases_of(const json::object& object) {
  std::vector<Case> cases;
  for (const auto& entry : object.at("results").as_array()) {
    const auto& result = entry.as_object();
    EXPECT_EQ(result.size(), 6U);
    cases.push_back({.kind = std::string(result.at("kind").as_string()),
                     .prompt = result.at("prompt").as_int64(),
                     .gen = result.at("gen").as_int64(),
                     .depth = result.at("depth").as_int64(),
                     .threads = result.at("threads").as_int64()});
    const auto& rate = result.at("tokens_per_s").as_object();
    EXPECT_EQ(rate.size(), 4U);
    const auto number = [&](const char* key) { return rate.at(key).to_number<double>(); };
    EXPECT_GT(number("min"), 0);
    EXPECT_LE(number("min"), number("median"));
    EXPECT_LE(number("median"), number("max"));
    EXPECT_EQ(rate.at("samples").as_array().size(), 2U);
  }
  return cases;
}

TEST(Bench, JsonHasEveryCase) {
  const auto object = object_of_success(bench({"-p", "40", "-n", "3", "-d", "0,20", "-t", "1,2", "--json"}));
  std::vector<Case> wanted;
  for (const int threads : {1, 2})
    for (const int depth : {0, 20}) {
      wanted.push_back({"prefill", 40, 0, depth, threads});
      wanted.push_back({"decode", 0, 3, depth, threads});
    }
  EXPECT_EQ(cases_of(object), wanted);
  expect_machine(object.at("machine").as_object());
  EXPECT_EQ(object.at("machine").at("read_bandwidth").as_array().size(), 2U);
  for (const char* key : {"limits", "model", "model_hash", "batch", "kv", "isa", "choices", "exact", "version"})
    EXPECT_TRUE(object.contains(key)) << key;
}

TEST(Bench, KernelsShareTheTime) {
  const auto object = object_of_success(bench({"-p", "40", "-n", "3", "--json"}));
  std::map<std::string, double> shares;
  for (const auto& kernel : object.at("kernels").as_array()) {
    shares[std::string(kernel.at("kind").as_string())] += kernel.at("share").to_number<double>();
    EXPECT_FALSE(kernel.at("kernel").as_string().empty());
    for (const char* key :
         {"prompt", "gen", "depth", "threads", "ms", "gb_per_s", "gop_per_s", "peak", "share_of_peak"})
      EXPECT_TRUE(kernel.as_object().contains(key)) << key;
  }
  ASSERT_EQ(shares.size(), 2U);
  for (const auto& [kind, share] : shares) EXPECT_NEAR(share, 1, 0.01) << kind;
}

TEST(Bench, EitherHalfMayBeLeftOut) {
  for (const auto& kind : {"prefill", "decode"}) {
    const bool prefill = std::string_view(kind) == "prefill";
    const auto cases =
        cases_of(object_of_success(bench({"-p", prefill ? "9" : "0", "-n", prefill ? "0" : "2", "--json"})));
    ASSERT_EQ(cases.size(), 1U) << kind;
    EXPECT_EQ(cases[0].kind, kind);
  }
}

TEST(Bench, ListsOfLengths) {
  const auto object = object_of_success(bench({"-p", "4,9", "-n", "0,2,3", "-t", "1", "--json"}));
  EXPECT_EQ(cases_of(object),
            (std::vector<Case>{
                {"prefill", 4, 0, 0, 1}, {"prefill", 9, 0, 0, 1}, {"decode", 0, 2, 0, 1}, {"decode", 0, 3, 0, 1}}));
  const auto& limits = object.at("limits").as_array();
  ASSERT_EQ(limits.size(), 4U);
  EXPECT_EQ(limits[1].at("prompt").as_int64(), 9);
  EXPECT_EQ(limits[3].at("gen").as_int64(), 3);
}

TEST(Bench, OptionsAreTaken) {
  const auto object = object_of_success(
      bench({"-p", "0", "-n", "2", "-b", "20", "--kv", "f32", "--isa", "scalar", "--exact", "--json"}));
  EXPECT_EQ(object.at("batch").as_int64(), 20);
  EXPECT_EQ(object.at("kv").as_string(), "f32");
  EXPECT_EQ(object.at("isa").as_string(), "scalar");
  EXPECT_EQ(object.at("exact").as_bool(), true);
}

TEST(Bench, TextNamesCasesKernelsAndPeaks) {
  const auto result = bench({"-p", "4", "-n", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"tokens/s", "prefill 4", "decode 2", "linear", "attention", "sampling", "peaks measured"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
}

TEST(Bench, UsageErrors) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"-p", "0", "-n", "0"},
                                                                 {"-p", "4,,8"},
                                                                 {"-p", "-1"},
                                                                 {"-d", ""},
                                                                 {"-d", "1,"},
                                                                 {"-d", "1,x"},
                                                                 {"-t", "0"},
                                                                 {"-t", "1,,2"},
                                                                 {"-r", "0"},
                                                                 {"-b", "0"},
                                                                 {"--kv", "f8"},
                                                                 {"--isa", "none"},
                                                                 {"more"}}) {
    const auto result = bench(words);
    EXPECT_EQ(result.exit_code, 2) << words[0] << result.out << result.err;
    EXPECT_EQ(result.out, "") << words[0];
  }
  EXPECT_EQ(knapsack({"bench"}).exit_code, 2);
  EXPECT_EQ(knapsack({"bench", model + "/none"}).exit_code, 3);
}

TEST(Bench, WhatDoesNotFit) {
  const auto result = bench({"-d", "16000000", "-b", "128"});
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_NE(result.err.find("-d"), std::string::npos) << result.err;
  const auto beyond =
      knapsack({"bench", model, "-d", "300", "-p", "4", "-n", "0", "-r", "1", "--peak-seconds", "0.001"});
  EXPECT_EQ(beyond.exit_code, 0) << beyond.err;
  EXPECT_NE(beyond.err.find("trained for"), std::string::npos) << beyond.err;
}

}  // namespace
}  // namespace knapsack
