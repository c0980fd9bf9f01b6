// `knapsack align` end to end: models against themselves run otherwise, dumps, exit codes, JSON, the report.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::run;
using testing::TempDir;

const std::string talker = testing::data_path("golden/qwen2-tied-gqa").string();  // has a tokenizer
const std::string mute = testing::data_path("golden/llama-mha-gelu").string();    // has none

testing::CommandResult align(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), {binary(), "align"});
  return run(words, input);
}

json::object object_of(const testing::CommandResult& result) {
  auto parsed = parse_json_object(result.out, "stdout");
  EXPECT_TRUE(parsed) << result.out << result.err;
  return parsed ? *parsed : json::object();
}

void expect_error(const testing::CommandResult& result, int code, const std::string& part) {
  EXPECT_EQ(result.exit_code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

TEST(Align, AModelWithItself) {
  const auto result = align({talker, talker, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto object = object_of(result);
  for (const char* key : {"a", "b", "tokens", "replayed", "nodes", "born", "logits", "only_in_a", "only_in_b",
                          "threshold_cosine", "passed"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_TRUE(object.at("passed").as_bool());
  EXPECT_TRUE(object.at("born").as_array().empty());
  EXPECT_GT(object.at("tokens").as_int64(), 20);
  const auto& node = object.at("nodes").as_array().at(0).as_object();
  for (const char* key :
       {"name", "op", "layer", "cosine", "rel_l2", "max_abs", "sqnr_db", "born", "born_cosine", "born_rel_l2",
        "born_position", "born_token", "broken", "range_a", "range_b", "saturated", "not_finite", "rel_l2_by_position"})
    EXPECT_TRUE(node.contains(key)) << key;
  EXPECT_EQ(node.at("name").as_string(), "embed");
  EXPECT_EQ(object.at("logits").as_object().at("kl").to_number<double>(), 0);
  EXPECT_EQ(object.at("logits").as_object().at("top1").to_number<double>(), 1);
}

TEST(Align, HowEachIsRunStandsAfterTheColon) {
  TempDir folder;
  const std::string report = folder.file("report.html");
  const auto words = align({talker + ":reference", talker + ":exact,kv=f16", "--html", report});
  EXPECT_NE(words.out.find("layers.0.attn.context"), std::string::npos) << words.out << words.err;
  EXPECT_NE(testing::read_file(report).find("</svg>"), std::string::npos);
  expect_error(align({talker + ":exact,fast", talker}), 2, "found 'fast'");
  expect_error(align({talker + ":kv=f64", talker}), 2, "found 'kv=f64'");
  EXPECT_EQ(align({talker + ":", talker}).exit_code, 0);
  // A colon in a path is no word.
  const std::string colon = folder.file("a:exact");
  std::filesystem::create_directory_symlink(talker, colon);
  EXPECT_EQ(align({colon, colon + ":exact", "--ids", "1,2"}).exit_code, 0);
}

// GGUF's Llama has the rows of Q and K in another order.
TEST(Align, AFolderWithItsGguf) {
  TempDir folder;
  const std::string gguf = folder.file("m.gguf");
  const std::string llama = testing::data_path("golden/llama-llama3rope").string();
  ASSERT_EQ(run({binary(), "convert", llama, "-o", gguf, "--type", "f32"}).exit_code, 0);
  const auto result = align({llama + ":reference", gguf + ":reference", "--ids", "1,2,3,4,5,6,7,8", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(object_of(result).at("born").as_array().empty()) << result.out.substr(0, 2000);
}

// tools/golden/dump_transformers.py's own dumps: every value that the script names is known, and none is born wrong.
TEST(Align, DumpsOfTransformers) {
  struct Case {
    const char* name;
    std::size_t pairs;
    std::vector<std::string> only_in_dump;
  };
  // Keys and values are not expanded where attention stays in the latent space.
  const std::vector<Case> cases{{"qwen2-tied-gqa", 42, {}},
                                {"gemma3-text", 54, {}},
                                {"phi3-longrope", 29, {}},  // fewer tokens than its first context: the short factors
                                {"deepseek-v2-lite",
                                 47,
                                 {"model.layers.0.self_attn.kv_b_proj", "model.layers.1.self_attn.kv_b_proj",
                                  "model.layers.2.self_attn.kv_b_proj"}}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const std::string dump = testing::data_path(fmt::format("data/align/{}.npz", each.name)).string();
    const std::string model = testing::data_path(fmt::format("golden/{}", each.name)).string();
    const auto result = align({dump, model + ":reference", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto object = object_of(result);
    EXPECT_EQ(object.at("nodes").as_array().size(), each.pairs);
    EXPECT_TRUE(object.at("born").as_array().empty()) << result.out.substr(0, 2000);
    for (const auto& node : object.at("nodes").as_array())
      EXPECT_GT(node.at("cosine").to_number<double>(), 0.999999) << node.at("name").as_string();
    std::vector<std::string> only;
    for (const auto& name : object.at("only_in_a").as_array()) only.emplace_back(name.as_string());
    EXPECT_EQ(only, each.only_in_dump);
    EXPECT_EQ(align({model, dump}).exit_code, 0);
  }
}

TEST(Align, TheGateIsExitCodeOne) {
  const auto broken = align({talker + ":reference", talker + ":kv=f16", "--cosine", "0.9999999", "--json"});
  EXPECT_EQ(broken.exit_code, 1) << broken.err;
  EXPECT_FALSE(object_of(broken).at("passed").as_bool());
  EXPECT_EQ(align({talker + ":reference", talker + ":kv=f16", "--cosine", "0.9"}).exit_code, 0);
}

TEST(Align, WhatIsRun) {
  TempDir folder;
  EXPECT_EQ(object_of(align({mute, mute, "--json"})).at("tokens").as_int64(), 64);  // no tokenizer: ids
  EXPECT_EQ(object_of(align({mute, mute, "--tokens", "7", "--json"})).at("tokens").as_int64(), 7);
  EXPECT_EQ(object_of(align({mute, mute, "--ids", "1,2,3", "--json"})).at("tokens").as_int64(), 3);
  EXPECT_GT(object_of(align({talker, talker, "--input", "-", "--json"}, "hello there")).at("tokens").as_int64(), 1);
  const auto two = object_of(align({talker, talker, "--prompts", "-", "--json"}, "hello\n\nhello\n"));
  const auto one = object_of(align({talker, talker, "--prompts", "-", "--json"}, "hello\n"));
  EXPECT_EQ(two.at("tokens").as_int64(), 2 * one.at("tokens").as_int64());
  expect_error(align({mute, mute, "--ids", "1,99999"}), 2, "token id 99999");
  expect_error(align({mute, mute, "--ids", "1", "--input", "x"}), 2, "expected one of --ids, --input and --prompts");
  expect_error(align({mute, mute, "--input", "-"}, "text"), 2, "has a tokenizer");
  expect_error(align({talker, talker, "--input", "-"}, ""), 3, "found nothing");
  expect_error(align({talker, mute, "--ids", "1"}), 3, "not the same model");
  expect_error(align({talker, folder.file("none.gguf")}), 3, "none.gguf");
  testing::write_file(folder.file("bad.npz"), "PK, but no archive at all");
  expect_error(align({folder.file("bad.npz"), mute}), 3, "cut short");
  expect_error(align({folder.file("bad.npz"), folder.file("bad.npz")}), 2, "both dumps");
  expect_error(align({folder.file("bad.npz") + ":exact", mute}), 2, "a dump is not run");
  expect_error(align({talker, talker, "--html", talker + "/config.json"}), 2, "config.json");
}

}  // namespace
}  // namespace knapsack
