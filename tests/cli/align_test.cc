// `knapsack align` end to end: models against themselves run otherwise, dumps, exit codes, JSON, the report.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::expect_error;
using testing::object_of;
using testing::run;
using testing::TempDir;

const std::string talker = testing::data_path("golden/qwen2-tied-gqa").string();  // has a tokenizer
const std::string mute = testing::data_path("golden/llama-mha-gelu").string();    // has none

testing::CommandResult align(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), {binary(), "align"});
  return run(words, input);
}

TEST(Align, AModelWithItself) {
  const auto result = align({talker, talker, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto object = object_of(result);
  for (const char* key : {"a", "b", "tokens", "replayed", "nodes", "born", "routers", "by_token", "token_value",
                          "logits", "only_in_a", "only_in_b", "threshold_cosine", "passed"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_TRUE(object.at("passed").as_bool());
  EXPECT_TRUE(object.at("born").as_array().empty());
  EXPECT_GT(object.at("tokens").as_int64(), 20);
  const auto& node = object.at("nodes").as_array().at(0).as_object();
  for (const char* key : {"name", "op", "layer", "cosine", "rel_l2", "max_abs", "sqnr_db", "born", "born_cosine",
                          "born_rel_l2", "born_position", "born_token", "broken", "range_a", "range_b", "saturated",
                          "not_finite", "rel_l2_by_position", "hint"})
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

// Which tokens are far off, with their text where someone has a tokenizer.
TEST(Align, ErrorByToken) {
  const auto result = align({talker + ":reference", talker + ":kv=f16", "--prompts", "-"}, "hello there\nand more\n");
  EXPECT_NE(result.out.find("Tokens, worst first"), std::string::npos) << result.out;
  const auto object = object_of(
      align({talker + ":reference", talker + ":kv=f16", "--prompts", "-", "--json"}, "hello there\nand more\n"));
  EXPECT_EQ(object.at("token_value").as_string(), "logits");
  const auto& tokens = object.at("by_token").as_array();
  ASSERT_EQ(static_cast<std::int64_t>(tokens.size()), object.at("tokens").as_int64());
  std::array<std::string, 2> texts;
  double worst = 0, kl = 0;
  for (const auto& each : tokens) {
    const auto& token = each.as_object();
    const auto sequence = static_cast<std::size_t>(token.at("sequence").as_int64());
    texts.at(sequence) += std::string_view(token.at("text").as_string());
    worst = std::max(worst, token.at("rel_l2").to_number<double>());
    kl += token.at("kl").to_number<double>();
  }
  EXPECT_EQ(texts[0], "hello there");
  EXPECT_EQ(texts[1], "and more");
  EXPECT_GT(worst, 1e-6);
  EXPECT_NEAR(kl / static_cast<double>(tokens.size()), object.at("logits").as_object().at("kl").to_number<double>(),
              1e-9);
  EXPECT_TRUE(object_of(align({mute, mute, "--json"})).at("by_token").as_array()[0].as_object().at("text").is_null());
}

// What passes make of a model is the model.
TEST(Align, AStageBesideTheModel) {
  for (const char* name : {"qwen2-tied-gqa", "llama-llama3rope", "gemma3-text", "qwen3-moe", "deepseek-v2-lite"}) {
    const std::string model = testing::data_path(fmt::format("golden/{}", name)).string();
    for (const char* stage :
         {"canonical", "static", "fused", "primitive", "fused,tokens=16", "fused,without=merge-linears"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, stage));
      const auto result = align({model + ":reference", fmt::format("{}:reference,stage={}", model, stage), "--ids",
                                 "3,5,8,13,21,34,55,89,14,23,2,3,5,7,11,13,17,19,23,29", "--json"});
      EXPECT_EQ(result.exit_code, 0) << result.err;
      const auto object = object_of(result);
      EXPECT_TRUE(object.at("born").as_array().empty()) << result.out.substr(0, 2000);
      EXPECT_GT(object.at("logits").as_object().at("tokens").as_int64(), 1);
      EXPECT_GT(object.at("nodes").as_array().size(), 15);
    }
    EXPECT_EQ(align({model, model + ":stage=fused"}).exit_code, 0);
  }
  // Left out is left out: the parts of a product that was not merged are products.
  const auto apart = object_of(align({talker, talker + ":without=merge-linears", "--ids", "1,2", "--json"}));
  for (const auto& name : apart.at("only_in_b").as_array())
    EXPECT_EQ(std::string_view(name.as_string()).find('+'), std::string_view::npos) << name.as_string();
  expect_error(align({talker, talker + ":stage=fusd"}), 2, "did you mean fused?");
  expect_error(align({talker, talker + ":without=merge-linear"}), 2, "'merge-linear' is no pass");
  expect_error(align({talker, talker + ":stage=primitive,without=drop-dead"}), 2, "no pass leads to");
  expect_error(align({talker, talker + ":tokens=0"}), 2, "found 'tokens=0'");
}

// What a Python that stands for ONNX Runtime says and does: each way that goes wrong is told. With the real one:
// tests/align/onnx_test.py.
TEST(Align, OnnxRuntimesFaultsAreTold) {
  TempDir folder;
  const std::string exported = folder.file("export");
  ASSERT_EQ(run({binary(), "export", talker, "-o", exported, "--ctx", "32", "--chunk", "16"}).exit_code, 0);
  const auto with = [&](const std::string& program, const std::string& limit = "60") {
    const std::string python = folder.file("python");
    testing::write_file(python, "#!/bin/sh\n" + program);
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    return align({talker, exported + ":ort", "--ids", "1,2", "--python", python, "--time-limit", limit});
  };
  const std::string ask = "read -r line\n";
  expect_error(with(ask + "echo '{\"missing\": \"No module named onnx\"}'"), 4,
               "python -m pip install numpy onnx onnxruntime`");
  expect_error(with("echo bad luck >&2\nexit 9"), 3, "ended with exit code 9; its standard error: bad luck");
  expect_error(with(ask + "echo '{\"error\": \"no such operator\"}'"), 3, "ONNX Runtime: no such operator");
  expect_error(with(ask + "echo hello"), 3, "the answer of");
  expect_error(with(ask + "echo '{}'"), 3, "vocab");
  expect_error(with("exec sleep 600", "1"), 5, "took longer than 1 s and was ended");
  const std::string about =
      ask +
      "echo '{\"vocab\": 512, \"ctx\": 32, \"chunk\": 16, \"version\": \"0\", \"nodes\": [{\"name\": \"embed\", "
      "\"op\": \"Gather\", \"cols\": 64, \"inputs\": []}]}'\n" +
      ask + "echo '{}'\n";
  expect_error(with(about + ask + "echo '{\"npz\": \"/nowhere/at.npz\"}'"), 3, "/nowhere/at.npz");
  const std::string others = testing::data_path("data/align/qwen2-tied-gqa.npz").string();
  expect_error(with(about + ask + "echo '{\"npz\": \"" + others + "\"}'"), 3,
               "no value that both have was made by both");
  expect_error(with(about + ask + "kill -9 $$"), 3, "was ended by signal 9");
  expect_error(align({talker, exported + ":ort", "--python", folder.file("none")}), 2, "No such file");
  expect_error(align({talker, exported + ":ort", "--python", folder.file("none")}), 2, "KNAPSACK_PYTHON");
  // What ends the program ends what it started, and its folder of values goes.
  testing::write_file(folder.file("hang"), "#!/bin/sh\nexec sleep 600\n");
  std::filesystem::permissions(folder.file("hang"), std::filesystem::perms::owner_all);
  std::filesystem::create_directory(folder.file("tmp"));
  const auto ended = run({"bash", "-c",
                          "TMPDIR=\"$FOLDER/tmp\" \"$KNAPSACK\" align \"$MODEL\" \"$FOLDER/export:ort\" --python "
                          "\"$FOLDER/hang\" --json & job=$!; for i in $(seq 500); do child=$(pgrep -P $job) && break; "
                          "sleep 0.01; done; kill $job; wait $job; code=$?; sleep 0.2; readlink /proc/$child/exe > "
                          "/dev/null && { echo alive; kill $child; }; exit $code"},
                         "", {"KNAPSACK=" + binary(), "MODEL=" + talker, "FOLDER=" + folder.path().string()});
  EXPECT_EQ(ended.exit_code, 143) << ended.err;
  EXPECT_EQ(ended.out, "{\"error\": {\"code\": 143, \"message\": \"interrupted\"}}\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("tmp")));
  // No model is written over by the report, whatever it is called.
  for (const char* name : {"decode.onnx", "weights.data"}) {
    const std::string path = exported + "/" + name;
    const std::string before = testing::read_file(path);
    expect_error(align({talker, talker, "--ids", "1", "--html", path}), 2, "there already");
    EXPECT_TRUE(testing::read_file(path) == before) << name;
  }
  expect_error(align({talker, talker, "--ids", "1", "--html", "-"}), 2, "--html");
  expect_error(align({talker, folder.file("none"), "--html", folder.file("no/x.html")}), 2, "no/x.html");
  expect_error(align({talker, talker + ":ort"}), 3, "expected a folder with decode.onnx");
  expect_error(align({exported + ":ort", exported + ":ort"}), 2, "both dumps or ONNX exports");
  expect_error(align({talker, exported + ":ort,exact"}), 2, "expected no words beside ort");
}

// A decoder out of an ONNX file, run by this program.
TEST(Align, AnOnnxFileBesideItsModel) {
  TempDir folder;
  std::vector<std::string> names = {"gemma3-text", "qwen2-tied-gqa", "mistral-window"};
#if defined(__SANITIZE_ADDRESS__)
  names.resize(1);  // a minute each
#endif
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string model = testing::data_path(fmt::format("golden/{}", name)).string();
    const std::string exported = folder.file(name);
    ASSERT_EQ(run({binary(), "export", model, "-o", exported, "--ctx", "64", "--chunk", "16"}).exit_code, 0);
    const std::string onnx = exported + "/prefill.onnx";
    const auto result =
        align({model + ":reference", onnx + ":reference", "--ids", "3,5,8,13,21,34,55,89,14,2", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const auto object = object_of(result);
    EXPECT_TRUE(object.at("born").as_array().empty()) << result.out.substr(0, 2000);
    EXPECT_EQ(object.at("logits").as_object().at("tokens").as_int64(), 10);
    EXPECT_GT(object.at("nodes").as_array().size(), 20);
    EXPECT_EQ(align({onnx, onnx + ":stage=fused", "--ids", "3,5,8,13"}).exit_code, 0);
  }
  const std::string llama = testing::data_path("data/onnx/llama-prefill.onnx").string();
  expect_error(align({llama + ":dim=batch=one", llama}), 2, "found 'dim=batch=one'");
  expect_error(align({talker + ":dim=batch=1", talker}), 2, "is for ONNX files");
  expect_error(align({talker, talker, "--dim", "batch=1"}), 2, "are for ONNX files");
  expect_error(align({llama, llama, "--dim", "batch"}), 2, "NAME=SIZE");
}

// What an ONNX file leaves open is pinned by the flag that the message names.
TEST(Align, OpenDimensionsOfAnOnnxFile) {
  const std::string optimum = testing::data_path("data/onnx/qwen2-optimum.onnx").string();
  expect_error(align({optimum, optimum}), 2, "--dim past_sequence_length=SIZE");
  const std::vector<std::string> pins = {"--dim", "batch_size=1",          "--dim", "sequence_length=2",
                                         "--dim", "past_sequence_length=9"};
  std::vector<std::string> words = {optimum + ":reference", optimum + ":reference,stage=fused", "--json"};
  words.insert(words.end(), pins.begin(), pins.end());
  const auto both = align(words);
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_GT(object_of(both).at("nodes").as_array().size(), 20);
  // A side's own word goes before the flag.
  words[0] = optimum + ":reference,dim=sequence_length=3";
  EXPECT_EQ(align(words).exit_code, 0);
  words.insert(words.end(), {"--dim", "sequence_length=3"});
  words.erase(words.begin() + 2);
  expect_error(align(words), 2, "'sequence_length' is pinned already");
  // All of an input's sizes; and what is no decoder is told so, with what there is for it.
  const std::string bert = testing::data_path("data/onnx/bert.onnx").string();
  expect_error(align({bert, bert, "--shape", "input_ids=2,7", "--shape", "attention_mask=2,7"}), 4,
               "align compares decoders, token by token, and this is not known as one");
}

// What stands in others' messages as a flag of theirs is said as align has it.
TEST(Align, MessagesNameItsOwnWords) {
  const std::string experts = testing::data_path("golden/qwen3-moe").string();
  expect_error(align({experts, experts + ":kv=q8_0"}), 4, "use :kv=f16");
  const std::string window = testing::data_path("golden/qwen2-window").string();
  expect_error(align({talker, window}), 3, "512 tokens in its vocabulary");
}

// How each side ran, what the gate is, what breaks it.
TEST(Align, TheTableSaysHowEachRanAndWhatBreaksTheGate) {
  const auto broken = align({talker + ":reference", talker + ":reference,kv=f16", "--cosine", "0.9999999"});
  EXPECT_EQ(broken.exit_code, 1) << broken.err;
  for (const char* part :
       {":reference (scalar instructions, float products, KV cache in F32)", "float products, KV cache in F16",
        "its cosine below 0.9999999 or its relative L2 over 0.000447", "tokens of a usual prompt (--input",
        "\n!  layers."})
    EXPECT_NE(broken.out.find(part), std::string::npos) << part << "\n" << broken.out;
  EXPECT_EQ(broken.out.find("`exact`"), std::string::npos) << broken.out;  // the cache is why
  const auto fine = align({talker + ":reference", talker + ":reference,kv=f16"});
  EXPECT_EQ(fine.out.find("\n!"), std::string::npos) << fine.out;
  const auto object = object_of(align({talker, talker + ":kv=f32", "--json"}));
  EXPECT_NE(std::string_view(object.at("run_a").as_string()).find("F16"), std::string_view::npos);
  EXPECT_NE(std::string_view(object.at("text").as_string()).find("usual prompt"), std::string_view::npos);
  EXPECT_TRUE(object.at("hint").is_null());
  EXPECT_NEAR(object.at("threshold_rel_l2").to_number<double>(), 0.0447, 1e-4);
  const auto ids = object_of(align({talker, talker, "--ids", "1,2", "--json"}));
  EXPECT_TRUE(ids.at("text").is_null());
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
