// `knapsack plan` from the command line: keys, exit codes, what errors name.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "device/devices.h"
#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::object_of;

testing::CommandResult plan(std::vector<std::string> words) {
  words.insert(words.begin(), {testing::binary(), "plan"});
  return testing::run(words, "", {"KNAPSACK_DEVICES="});
}
TEST(PlanCommand, ANameOnADevice) {
  const auto result = plan({"qwen2.5-1.5b", "--device", "rk3588", "--quant", "w8a8", "--ctx", "1024", "--prompt", "128",
                            "--memory", "8", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json::object object = object_of(result);
  for (const char* key : {"verdict", "reasons", "changes", "weights_mib", "kv_mib", "arena_mib", "peak_mib", "ttft_ms",
                          "prefill_tokens_per_s", "decode_tokens_per_s", "energy_mj_per_token", "steady_c",
                          "minutes_to_throttle", "unknown"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_NEAR(object.at("weights_mib").as_double(), 1543.7e6 / (1 << 20), 10);
  EXPECT_NEAR(object.at("kv_mib").to_number<double>(), 28, 1e-9);  // 28 layers x 2 x 256 x 2 bytes x 1024
  // Published: 16.6 tokens/s with RKLLM.
  EXPECT_NEAR(object.at("decode_tokens_per_s").at("expected").as_double(), 16.6, 3);
  for (const char* key : {"ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s"}) {
    const auto& band = object.at(key).as_object();
    EXPECT_LT(band.at("low").as_double(), band.at("expected").as_double()) << key;
    EXPECT_LT(band.at("expected").as_double(), band.at("high").as_double()) << key;
    EXPECT_LE(band.at("high").as_double() / band.at("low").as_double(), 2.01) << key;
  }
}

// Its GPU is a display's: nobody ran a language model on it, and its peak says nothing.
TEST(PlanCommand, AUnitThatNothingWasMeasuredOnIsNotChosenBesideOneThatWas) {
  const json::object object =
      object_of(plan({"qwen2.5-1.5b", "--device", "raspberry-pi-5", "--quant", "q4_k_m", "--json"}));
  EXPECT_EQ(object.at("unit").as_string(), "cpu");
  EXPECT_EQ(object.at("framework").as_string(), "llama.cpp");
}

TEST(PlanCommand, WhatDoesNotFitEndsWith1AndSaysWhatWould) {
  const auto result = plan({"llama-3.1-8b", "--device", "raspberry-pi-5", "--quant", "f16", "--memory", "8", "--json"});
  EXPECT_EQ(result.exit_code, 1);
  const json::object object = object_of(result);
  EXPECT_EQ(object.at("verdict").as_string(), "does not fit");
  EXPECT_FALSE(object.at("changes").as_array().empty());
}

TEST(PlanCommand, ASmallerModelOfTheFamily) {
  const json::object object = object_of(plan({"qwen2.5-7b", "--device", "rk3588", "--json"}));
  EXPECT_EQ(object.at("verdict").as_string(), "does not fit");
  const auto& changes = object.at("changes").as_array();
  EXPECT_TRUE(std::any_of(changes.begin(), changes.end(), [](const json::value& change) {
    return change.as_string().find("B in place of Qwen2.5-7B: ") != json::string::npos;
  })) << json::serialize(changes);
}

// The NPU's first token comes after 1.4 s, the CPU decodes 25 tokens a second: each meets the other half.
TEST(PlanCommand, PrefillOnOneUnitAndDecodeOnAnother) {
  testing::TempDir folder;
  testing::write_file(folder.path() / "bar.json", R"({"ttft_s": 1, "decode_tokens_per_s": 45})");
  const json::object object = object_of(plan({"qwen2.5-1.5b", "--device", "apple-m1-max", "--unit", "npu", "--quant",
                                              "f16", "--bar", folder.file("bar.json"), "--json"}));
  EXPECT_EQ(object.at("verdict").as_string(), "does not fit");
  const auto& changes = object.at("changes").as_array();
  EXPECT_TRUE(std::any_of(changes.begin(), changes.end(), [](const json::value& change) {
    return change.as_string().starts_with("prefill on the cpu (f16) and decode on the npu (f16), ") &&
           change.as_string().ends_with(": tight");
  })) << json::serialize(changes);
}

// `devices measure` keeps the machine's own speeds, and a plan for it uses them.
TEST(PlanCommand, TheMachineAtHand) {
  testing::TempDir own;
  Machine machine{.host = read_host()};
  machine.engine = EngineSpeed{.threads = 1,
                               .matrices = {{"Q4_0", 576, 10, 100}},
                               .layers = {{576, 10, 1}},
                               .load_gb_per_s = 1,
                               .attention_gb_per_s = 5,
                               .attention_gop_per_s = 50};
  testing::write_file(own.path() / "host.json", json::serialize(host_profile(machine)));
  const auto result = testing::run({testing::binary(), "plan", "smollm2-135m", "--device", "host", "--quant", "q4_0",
                                    "--ctx", "512", "--prompt", "64", "--json"},
                                   "", {"KNAPSACK_DEVICES=" + own.path().string()});
  const json::object object = object_of(result);
  EXPECT_EQ(object.at("framework").as_string(), "knapsack");
  // 134.5 million weights, of which the tied table of 28.3 million is Q8_0; 30 layers of 10 us.
  const double bytes = 106.2e6 * 4.5 / 8 + 28.3e6 * 8.5 / 8;
  const double seconds = bytes / 10e9 + 30 * 10e-6;
  EXPECT_NEAR(object.at("decode_at_depth").as_array().at(0).at("tokens_per_s").at("expected").as_double(), 1 / seconds,
              0.01 / seconds);
  EXPECT_TRUE(object.at("load_s").is_object());
}

// RKNN-Toolkit2's table has 8 bits and floats; of the operators it takes all, but for what it writes otherwise.
TEST(PlanCommand, WhatAToolchainTakes) {
  const auto planned = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"qwen2.5-1.5b", "--unit", "npu", "--json"});
    return object_of(plan(words));
  };
  const json::object four = planned({"--device", "rk3588", "--toolchain", "rknn-toolkit2", "--quant", "w4a16-g128"});
  EXPECT_EQ(four.at("verdict").as_string(), "does not fit");
  EXPECT_EQ(four.at("reasons").as_array().at(0).as_string(),
            "rknn-toolkit2-2.1.0 takes no weights of 4 bits, but of 8, 16");
  const json::object eight = planned({"--device", "rk3588", "--toolchain", "rknn-toolkit2"});
  EXPECT_EQ(eight.at("quant").as_string(), "w8a8");
  EXPECT_EQ(eight.at("verdict").as_string(), "fits");
  EXPECT_EQ(eight.at("operators").at("total").as_int64(), 2015);
  const auto& operators = eight.at("operators").as_object();
  EXPECT_EQ(operators.at("npu").as_int64() + operators.at("cpu").as_int64() + operators.at("ahead").as_int64() +
                operators.at("unknown").as_int64(),
            2015);
  EXPECT_EQ(
      planned({"--device", "snapdragon-8-gen-3", "--toolchain", "qairt@2.41"}).at("operators").at("at").as_string(),
      "2.41");
  EXPECT_TRUE(object_of(plan({"qwen2.5-1.5b", "--device", "rk3588", "--json"})).at("operators").is_null());
  EXPECT_NE(plan({"qwen2.5-1.5b", "--device", "raspberry-pi-5", "--toolchain", "qairt"}).err.find("has no NPU"),
            std::string::npos);
  EXPECT_NE(
      plan({"qwen2.5-1.5b", "--device", "rk3588", "--toolchain", "rknn-toolkit3"}).err.find("rknn-toolkit2-2.1.0"),
      std::string::npos);
}

// Genie was measured with 4 bits: `auto` plans for that, though f16 would fit, and takes f16 where it is asked for.
TEST(PlanCommand, AutoStaysWithWhatAFrameworkWasMeasuredWith) {
  const auto quant = [](const std::string& asked) {
    return object_of(
        plan({"qwen2.5-1.5b", "--device", "snapdragon-8-gen-3", "--memory", "12", "--quant", asked, "--json"}));
  };
  EXPECT_EQ(quant("auto").at("quant").as_string(), "w4a16-g128");
  EXPECT_EQ(quant("f16").at("quant").as_string(), "f16");
  EXPECT_EQ(quant("f16").at("verdict").as_string(), "fits");
}

TEST(PlanCommand, ABareConfigAndACheckpoint) {
  testing::TempDir folder;
  testing::write_file(folder.path() / "config.json",
                      testing::read_file(testing::source_dir() / "models/qwen2.5-0.5b.json"));
  for (const std::string& model : {folder.file("config.json"), folder.path().string()}) {
    const json::object object = object_of(plan({model, "--device", "apple-m4", "--quant", "q8_0", "--json"}));
    EXPECT_EQ(object.at("parameters").as_int64(), 494'032'768) << model;
  }
}

TEST(PlanCommand, ErrorsNameWhatIsNear) {
  const auto wrong = [](std::vector<std::string> words, const std::string& says) {
    const auto result = plan(std::move(words));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_TRUE(result.out.empty());
  };
  wrong({"qwen2.5-1.5", "--device", "rk3588"}, "qwen2.5-1.5b");
  wrong({"qwen2.5-1.5b", "--device", "rk3589"}, "rk3588");
  wrong({"qwen2.5-1.5b", "--device", "rk3588", "--quant", "q4km"}, "q4_k_m");
  wrong({"qwen2.5-1.5b", "--device", "rk3588", "--ctx", "0"}, "--ctx 0");
  wrong({"qwen2.5-1.5b", "--device", "rk3588", "--ctx", "1000000"}, "at most 32768");
  wrong({"qwen2.5-1.5b"}, "--device");
  wrong({}, "MODEL");
}

TEST(PlanCommand, WhatDoesNotGoTogether) {
  const auto refused = [](std::vector<std::string> words, const std::string& says) {
    const auto result = plan(std::move(words));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
  };
  refused({"qwen2.5-1.5b", "--device", "rk3588", "--framework", "rklm"}, "the nearest are rkllm");
  refused({"qwen2.5-1.5b", "--device", "rk3588", "--unit", "cpu", "--toolchain", "rknn-toolkit2"}, "--unit cpu");
  refused({"qwen2.5-1.5b", "--device", "snapdragon-8-gen-3", "--toolchain", "rknn-toolkit2"}, "of its own there are");
  refused({"qwen2.5-1.5b", "--device", "rk3588", "--quant", "all", "--sweep", "ctx=1k,2k"}, "--sweep");
  refused({"qwen2.5-1.5b", "--device", "rk3588", "--validate", "x.csv"}, "MODEL does not go with --validate");
  refused({"qwen2.5-1.5b", "--device", "rk3588", "--plot", "/dev/stdout"}, "--plot");
}

// What is asked for by name and cannot be said is no fit; the budget is the smaller of what there is and what is asked.
TEST(PlanCommand, BarsAndWhatIsUnknown) {
  testing::TempDir folder;
  const auto verdict = [&](const std::string& bar, std::vector<std::string> more) {
    testing::write_file(folder.path() / "bar.json", bar);
    std::vector<std::string> words{"qwen2.5-1.5b", "--device", "rk3588", "--bar", folder.file("bar.json"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return object_of(plan(words));
  };
  EXPECT_EQ(verdict("{}", {}).at("verdict").as_string(), "fits");
  EXPECT_EQ(verdict(R"({"load_s": 3})", {}).at("verdict").as_string(), "tight");
  EXPECT_EQ(verdict(R"({"minutes": 30})", {}).at("verdict").as_string(), "tight");
  EXPECT_EQ(verdict(R"({"memory_mib": 1000000})", {"--memory", "1"}).at("budget_mib").to_number<double>(), 1024);
  EXPECT_EQ(verdict(R"({"memory_mib": 900})", {"--memory", "8"}).at("budget_mib").to_number<double>(), 900);
}

// A context or prompt that nobody asked for is never more than the model was made for.
TEST(PlanCommand, DefaultsFollowTheModel) {
  const json::object small = object_of(plan({"tinyllama-1.1b", "--device", "rk3588", "--json"}));
  EXPECT_EQ(small.at("ctx").as_int64(), 2048);
  const json::object narrow = object_of(plan({"qwen2.5-1.5b", "--device", "rk3588", "--ctx", "256", "--json"}));
  EXPECT_EQ(narrow.at("prompt").as_int64(), 256);
}

// A board of one's own made from a profile is planned as its family is.
TEST(PlanCommand, ARenamedProfileIsStillOfItsFamily) {
  testing::TempDir folder;
  json::object profile =
      *parse_json_object(testing::read_file(testing::source_dir() / "devices/rk3588.json"), "rk3588.json");
  profile["id"] = "mine";
  profile["name"] = "Mine\n\x1b[31m";
  profile.erase("aliases");
  testing::write_file(folder.path() / "mine.json", json::serialize(profile));
  const auto result = plan({"qwen2.5-1.5b", "--device", folder.file("mine.json")});
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  const json::object object = object_of(plan({"qwen2.5-1.5b", "--device", folder.file("mine.json"), "--json"}));
  EXPECT_EQ(object.at("unit").as_string(), "npu");
  EXPECT_EQ(object.at("framework").as_string(), "rkllm");
  EXPECT_EQ(object.at("quant").as_string(), "w8a8");
}

TEST(PlanCommand, TablesSweepsAndPlots) {
  testing::TempDir folder;
  const auto all = object_of(plan({"qwen3-0.6b", "--device", "apple-m4", "--quant", "all", "--json"}));
  EXPECT_GT(all.at("plans").as_array().size(), 10U);
  const auto swept = plan({"qwen3-0.6b", "--device", "apple-m4", "--quant", "q8_0", "--sweep", "ctx=1k..4k", "--plot",
                           folder.file("sweep.svg")});
  EXPECT_EQ(swept.exit_code, 0) << swept.err;
  EXPECT_NE(swept.out.find("4096"), std::string::npos);
  EXPECT_TRUE(testing::read_file(folder.path() / "sweep.svg").starts_with("<svg"));
  const auto roof = plan({"qwen3-0.6b", "--device", "apple-m4", "--plot", folder.file("roof.svg")});
  EXPECT_EQ(roof.exit_code, 0) << roof.err;
  EXPECT_NE(testing::read_file(folder.path() / "roof.svg").find("prefill"), std::string::npos);
}

TEST(PlanCommand, ValidatesPublishedRows) {
  const std::string rows = (testing::source_dir() / "tools/plan/measured.csv").string();
  const auto object = object_of(plan({"--validate", rows, "--json"}));
  ASSERT_EQ(object.at("rows").as_array().size(), 574U);
  for (const char* key : {"id", "decode_err", "prefill_err", "ttft_err", "memory_err", "decode_in_band", "reason"})
    EXPECT_TRUE(object.at("rows").as_array().front().as_object().contains(key)) << key;
  testing::TempDir folder;
  testing::write_file(folder.path() / "broken.csv", "id,model\n1\n");
  EXPECT_EQ(plan({"--validate", folder.file("broken.csv")}).exit_code, 3);
  EXPECT_EQ(plan({"--validate", folder.file("absent.csv")}).exit_code, 3);
}

}  // namespace
}  // namespace knapsack
