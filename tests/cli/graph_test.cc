// `knapsack graph` end to end: every format, some layers only, what is refused, names that no format may trip over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/json.h"
#include "support/command.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::expect_error;
using testing::object_of;
using testing::run;
using testing::TempDir;

const std::string model = testing::data_path("golden/qwen2-tied-gqa").string();

testing::CommandResult graph(std::vector<std::string> words) {
  words.insert(words.begin(), {binary(), "graph"});
  return run(words);
}

const json::object& named(const json::object& object, const char* list, const std::string& name) {
  for (const auto& each : object.at(list).as_array())
    if (each.as_object().at("name").as_string() == name) return each.as_object();
  ADD_FAILURE() << "no " << name;
  return object;
}

TEST(Graph, TextIsReadBack) {
  const auto text = graph({model});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("knapsack-graph 1\n")) << text.out.substr(0, 200);
  TempDir folder;
  const std::string file = folder.file("g.txt");
  testing::write_file(file, text.out);
  EXPECT_EQ(graph({file}).out, text.out);
  EXPECT_EQ(graph({file, "--format", "text", "-o", "-"}).out, text.out);
  EXPECT_TRUE(object_of(graph({file, "--json"})).at("stage").is_null());
  expect_error(graph({file, "--stage", "primitive"}), 2, "has no weights");
  testing::write_file(file, text.out + "%more [T, 1] F32 = nothing %embed\n");
  expect_error(graph({file}), 3, "'nothing' is no op");
}

TEST(Graph, JsonHasEveryField) {
  const auto object = object_of(graph({model, "--json"}));
  for (const char* key : {"model", "stage", "layers", "title", "facts", "nodes", "values", "outputs"})
    EXPECT_TRUE(object.contains(key)) << key;
  EXPECT_EQ(object.at("stage").as_string(), "imported");
  EXPECT_TRUE(object.at("layers").is_null());
  EXPECT_EQ(object.at("outputs"), json::value(json::array{"logits"}));
  const auto& linear = named(object, "nodes", "layers.1.mlp.down_proj");
  for (const char* key :
       {"name", "op", "class", "layer", "unit", "origin", "purpose", "inputs", "outputs", "attributes", "weight_bytes"})
    EXPECT_TRUE(linear.contains(key)) << key;
  EXPECT_EQ(linear.at("op").as_string(), "linear");
  EXPECT_EQ(linear.at("class").as_string(), "matrix");
  EXPECT_EQ(linear.at("layer").as_int64(), 1);
  EXPECT_EQ(linear.at("inputs").as_array().at(0).as_string(), "layers.1.mlp.act");
  const auto& attention = named(object, "nodes", "layers.0.attn.context").at("attributes").as_object();
  EXPECT_TRUE(attention.at("heads").is_int64());
  EXPECT_TRUE(attention.at("scale").is_double());
  const auto& weight = named(object, "values", "model.layers.1.mlp.down_proj.weight");
  for (const char* key :
       {"name", "kind", "shape", "dtype", "block", "block_bytes", "bytes", "bytes_per", "layer", "note"})
    EXPECT_TRUE(weight.contains(key)) << key;
  EXPECT_EQ(weight.at("kind").as_string(), "constant");
  EXPECT_EQ(weight.at("bytes").as_int64(), linear.at("weight_bytes").as_int64());
  EXPECT_EQ(weight.at("layer").as_int64(), 1);
  const auto& shape = weight.at("shape").as_array();
  ASSERT_EQ(shape.size(), 2U);
  const std::int64_t elements = shape[0].as_int64() * shape[1].as_int64();
  EXPECT_EQ(weight.at("bytes").as_int64() * weight.at("block").as_int64(),
            elements * weight.at("block_bytes").as_int64());
  const auto& embed = named(object, "values", "embed");
  EXPECT_EQ(embed.at("shape").as_array().at(0).as_string(), "T");
  EXPECT_EQ(embed.at("bytes_per").as_string(), "T");
  EXPECT_EQ(embed.at("bytes").as_int64(), embed.at("shape").as_array().at(1).as_int64() * 4);
  EXPECT_EQ(named(object, "values", "layers.0.kv.k").at("kind").as_string(), "state");
  // Every value that a node names is there, and every value but weights, inputs and states is made by one.
  std::set<std::string> values, made;
  for (const auto& each : object.at("values").as_array()) values.emplace(each.as_object().at("name").as_string());
  for (const auto& each : object.at("nodes").as_array()) {
    for (const auto& name : each.as_object().at("outputs").as_array()) made.emplace(name.as_string());
    for (const auto& name : each.as_object().at("inputs").as_array())
      EXPECT_TRUE(values.contains(std::string(name.as_string()))) << name;
  }
  for (const auto& each : object.at("values").as_array()) {
    const std::string name(each.as_object().at("name").as_string());
    EXPECT_TRUE(each.as_object().at("kind").as_string() != "computed" || made.contains(name)) << name;
  }
}

// GGUF's names of weights say no layer that we know of; who reads them does.
TEST(Graph, AWeightIsOfTheLayerThatReadsIt) {
  TempDir folder;
  const std::string gguf = folder.file("m.gguf");
  ASSERT_EQ(run({binary(), "convert", model, "-o", gguf, "--type", "f16"}).exit_code, 0);
  const auto object = object_of(graph({gguf, "--json"}));
  const auto& weight = named(object, "values", "blk.1.ffn_down.weight");
  EXPECT_EQ(weight.at("layer"), json::value(1));
  EXPECT_EQ(weight.at("dtype").as_string(), "F16");
  EXPECT_TRUE(named(object, "values", "token_embd.weight").at("layer").is_null());
}

TEST(Graph, PrimitiveOperators) {
  const auto imported = object_of(graph({model, "--json"}));
  const auto object = object_of(graph({model, "--stage", "primitive", "--json"}));
  EXPECT_EQ(object.at("stage").as_string(), "primitive");
  EXPECT_GT(object.at("nodes").as_array().size(), 3 * imported.at("nodes").as_array().size());
  bool softmax = false, list = false;
  for (const auto& each : object.at("nodes").as_array()) {
    const auto& node = each.as_object();
    EXPECT_NE(node.at("op").as_string(), "attention");
    if (node.at("op").as_string() == "Softmax" && node.at("layer") == json::value(1)) {
      softmax = true;
      EXPECT_EQ(node.at("origin").as_string(), "layers.1.attn.context (attention)");
      EXPECT_EQ(node.at("class").as_string(), "sensitive");
    }
    if (const auto* perm = node.at("attributes").as_object().if_contains("perm"); perm != nullptr && perm->is_array())
      list = true;
  }
  EXPECT_TRUE(softmax);
  EXPECT_TRUE(list);
  // Text, there and back, and a part of it.
  TempDir folder;
  const auto text = graph({model, "--stage", "primitive"}).out;
  testing::write_file(folder.file("p.txt"), text);
  EXPECT_EQ(graph({folder.file("p.txt")}).out, text);
  const auto part = graph({model, "--stage", "primitive", "--layers", "1", "-o", folder.file("p.svg")});
  EXPECT_EQ(part.exit_code, 0) << part.err;
}

TEST(Graph, SomeLayers) {
  const auto text = graph({model, "--layers", "1"}).out;
  EXPECT_NE(text.find("# shown: layer 1 and what is of none; left out: "), std::string::npos) << text;
  EXPECT_NE(text.find("\n# left out: %layers.0.out ["), std::string::npos) << text;
  EXPECT_NE(text.find("\n%layers.1.attn.q_proj "), std::string::npos) << text;
  EXPECT_NE(text.find("\n%embed "), std::string::npos) << text;
  EXPECT_EQ(text.find("\n%layers.0."), std::string::npos) << text;
  EXPECT_EQ(text.find("@model.layers.0."), std::string::npos) << text;
  EXPECT_EQ(text.find("$layers.0."), std::string::npos) << text;
  const auto object = object_of(graph({model, "--layers", "1", "--json"}));
  EXPECT_EQ(object.at("layers").as_array().size(), 1U);
  for (const auto& node : object.at("nodes").as_array()) {
    const auto& layer = node.as_object().at("layer");
    EXPECT_TRUE(layer.is_null() || layer.as_int64() == 1) << node;
  }
  const auto dot = graph({model, "--layers", "1", "--format", "dot"}).out;
  EXPECT_NE(dot.find("from layer 0"), std::string::npos) << dot;
  EXPECT_EQ(dot.find("cluster_0"), std::string::npos) << dot;
  EXPECT_EQ(graph({"qwen2.5-1.5b", "--layers", "0-1,27"}).exit_code, 0);
  expect_error(graph({"qwen2.5-1.5b", "--layers", "28"}), 2, "at most 27");
  expect_error(graph({model, "--layers", "0,2000-3000"}), 2, "at most 2");
  for (const char* wrong : {"", "x", "1-", "-1", "3-1", "0,,1", "0-999999999"})
    expect_error(graph({model, "--layers=" + std::string(wrong)}), 2, "--layers");
}

TEST(Graph, TheFilesNameSaysWhatItIs) {
  TempDir folder;
  for (const auto& [name, begin] : {std::pair{"g.html", "<!doctype html>"},
                                    {"g.svg", "<svg "},
                                    {"g.dot", "digraph "},
                                    {"g.gv", "digraph "},
                                    {"g.json", "{\"model\": "},
                                    {"g.txt", "knapsack-graph 1\n"},
                                    {"graph", "knapsack-graph 1\n"}}) {
    const std::string file = folder.file(name);
    const auto result = graph({model, "-o", file});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(file), std::string::npos) << result.err;
    EXPECT_TRUE(testing::read_file(file).starts_with(begin)) << name;
    // Again: what is there is replaced.
    const auto object = object_of(graph({model, "-o", file, "--json"}));
    EXPECT_EQ(object.at("path").as_string(), file);
    EXPECT_EQ(static_cast<std::size_t>(object.at("bytes").as_int64()), testing::read_file(file).size());
  }
  EXPECT_EQ(graph({model, "-o", folder.file("x.svg"), "-q", "--format", "json"}).err, "");
  EXPECT_TRUE(testing::read_file(folder.file("x.svg")).starts_with("{"));
  EXPECT_EQ(graph({model, "--format", "svg", "-o", "-"}).out, graph({model, "--format", "svg"}).out);
}

TEST(Graph, PassesAreShownAndProved) {
  const auto shown = graph({model, "--stage", "fused", "--passes", "--prove", "--ctx", "64"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("merge-linears"), std::string::npos) << shown.out;
  const auto object = object_of(
      graph({model, "--stage", "fused", "--passes", "--prove", "--ctx", "64", "--no-pass", "fuse-norms", "--json"}));
  std::int64_t fewest = 1000;
  for (const auto& each : object.at("passes").as_array()) {
    const json::object& pass = each.as_object();
    const bool left_out = pass.at("pass").as_string() == "fuse-norms";
    EXPECT_EQ(pass.at("skipped").as_bool(), left_out);
    EXPECT_EQ(pass.at("rel_l2").is_null(), left_out);
    fewest = std::min(fewest, pass.at("nodes").as_array()[1].as_int64());
  }
  EXPECT_EQ(fewest, 33 + 7);  // two norms of each of three layers and the last one stand alone
  const auto text = graph({model, "--stage", "fused", "--ctx", "64", "--tokens", "4"}).out;
  EXPECT_NE(text.find("input %ids [4, 1] I32"), std::string::npos) << text.substr(0, 400);
  EXPECT_NE(text.find("fused_linear"), std::string::npos);
}

TEST(Graph, OnnxFilesWithTheirDimensionsPinned) {
  const std::string onnx = testing::data_path("data/onnx/resnet-trained.onnx").string();
  const auto open = graph({onnx});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_NE(open.err.find("'batch_size' of input"), std::string::npos) << open.err;
  EXPECT_NE(open.err.find("--dim batch_size=SIZE"), std::string::npos) << open.err;
  // A decoder's step is the one that it is pinned to, unless another is asked for.
  const std::string decoder = testing::data_path("data/onnx/qwen2-optimum.onnx").string();
  std::vector<std::string> line = {
      decoder,   "--dim", "batch_size=1", "--dim", "sequence_length=2", "--dim", "past_sequence_length=9",
      "--stage", "fused", "--passes"};
  EXPECT_NE(graph(line).out.find("a step (tokens 2, context 11) moves "), std::string::npos);
  line.insert(line.end(), {"--tokens", "1", "--ctx", "64"});
  const auto other = graph(line);
  EXPECT_NE(other.out.find("recognize: bytes are of the step that the file is pinned to: tokens 2, context 11\n"),
            std::string::npos)
      << other.out;
  EXPECT_NE(other.out.find("a step (tokens 1, context 64) moves "), std::string::npos) << other.out;
  const auto object = object_of(graph({onnx, "--dim", "batch_size=2", "--stage", "canonical", "--json"}));
  std::set<std::string> ops;
  for (const auto& each : object.at("nodes").as_array())
    if (const auto* op = each.as_object().if_contains("op")) ops.emplace(op->as_string());
  EXPECT_TRUE(ops.contains("Conv"));
  EXPECT_FALSE(ops.contains("BatchNormalization"));
  EXPECT_FALSE(ops.contains("Dropout"));
  EXPECT_EQ(graph({onnx, "--input", "pixel_values=1,3,16,16", "--stage", "fused"}).exit_code, 0);
  for (const std::string bad :
       {"batch_size", "batch_size=", "batch_size=-1", "batch_size=x", "batch_size=99999999999999999999"})
    expect_error(graph({onnx, "--dim", bad}), 2, "NAME=SIZE");
  expect_error(graph({onnx, "--dim", "batch_size=0"}), 2, "only a cache");
  expect_error(graph({onnx, "--dim", "batch_size=1", "--dim", "batch_size=2"}), 2, "already");
  expect_error(graph({onnx, "--input", "pixel_values=1,3,8,8", "--input", "pixel_values=1,3,8,8"}), 2, "already");
  expect_error(graph({onnx, "--dim", "=1"}), 2, "a name before");
}

TEST(Graph, ForADevice) {
  const auto object = object_of(graph({"qwen2.5-1.5b", "--stage", "fused", "--device", "rk3588", "--json"}));
  std::map<std::string, int> units;
  for (const auto& each : object.at("nodes").as_array())
    if (const auto* unit = each.as_object().if_contains("unit"); unit != nullptr && unit->is_string())
      ++units[std::string(unit->as_string())];
  EXPECT_GT(units["npu"], 1000);
  EXPECT_GT(units["cpu"], 0) << "the host writes the cache";
  const auto page = graph({"qwen2.5-1.5b", "--stage", "fused", "--device", "rk3588", "--format", "svg"}).out;
  EXPECT_NE(page.find("npu"), std::string::npos);
  const auto passes =
      object_of(graph({"qwen2.5-1.5b", "--stage", "fused", "--device", "rk3588", "--passes", "--json"}));
  EXPECT_EQ(passes.at("device").as_string(), "rk3588");
  EXPECT_EQ(passes.at("units").as_object().at("npu").as_int64(), units["npu"]);
  EXPECT_EQ(passes.at("units").as_object().at("cpu").as_int64(), units["cpu"]);
  const auto table = graph({"qwen2.5-1.5b", "--stage", "fused", "--device", "rk3588", "--passes"}).out;
  EXPECT_NE(table.find("on the npu"), std::string::npos) << table;
  EXPECT_NE(table.find("as the table of "), std::string::npos) << table;
  EXPECT_NE(table.find("kv_write on the cpu: the host writes new rows by index"), std::string::npos) << table;
  EXPECT_TRUE(passes.at("toolchain").as_object().at("id").as_string().starts_with("rknn"));
  EXPECT_GT(units["ahead"], 0) << "the mask and the rows of tables";
  for (const auto& each : object.at("nodes").as_array())
    EXPECT_EQ(each.as_object().at("why").is_null() && each.as_object().at("unit") == "cpu", false)
        << "each on the CPU says why: " << each;
  const auto html = graph({"qwen2.5-1.5b", "--stage", "fused", "--device", "rk3588", "--format", "html"}).out;
  EXPECT_NE(html.find("the host writes new rows by index"), std::string::npos);
  const auto merged =
      graph({"qwen2.5-0.5b", "--stage", "fused", "--device", "ethos-u85-1024-dram-high", "--passes"}).out;
  EXPECT_NE(merged.find("Sqrt on the npu: a part of Rsqrt"), std::string::npos) << merged;
  const auto no_table = graph({"qwen2.5-0.5b", "--stage", "fused", "--device", "hailo-10h", "--passes"}).out;
  EXPECT_NE(no_table.find("no table of a toolchain of it is here"), std::string::npos) << no_table;
  const auto no_npu = graph({"qwen2.5-0.5b", "--stage", "fused", "--device", "jetson-orin-nx", "--passes"}).out;
  EXPECT_NE(no_npu.find("on the cpu or gpu"), std::string::npos) << no_npu;
  EXPECT_NE(graph({"qwen2.5-0.5b", "--stage", "fused", "--device", "rk3588", "--toolchain", "qairt", "--passes"})
                .out.find("is no toolchain of rk3588"),
            std::string::npos);
  // Proved for the device, too.
  EXPECT_EQ(graph({model, "--stage", "fused", "--device", "rk3588", "--ctx", "32", "--passes", "--prove"}).exit_code,
            0);
  const auto laid =
      graph({model, "--stage", "fused", "--ctx", "32", "--weight-line", "512", "--channel-first-keys"}).out;
  EXPECT_NE(laid.find(" lines 512\n"), std::string::npos);
  EXPECT_NE(laid.find("state $layers.0.kv.k [32, 32] channel_first\n"), std::string::npos);
  const std::string onnx = testing::data_path("data/onnx/mobilenet-trained.onnx").string();
  const auto blocks = graph({onnx, "--dim", "batch_size=1", "--stage", "fused", "--channel-block", "8"});
  EXPECT_NE(blocks.out.find("block=8"), std::string::npos) << blocks.err;
  const std::string resnet = testing::data_path("data/onnx/resnet-trained.onnx").string();
  const auto apart = graph({resnet, "--dim", "batch_size=1", "--stage", "fused", "--device", "rk3588", "--passes"});
  EXPECT_NE(apart.out.find("Relu stay behind their products"), std::string::npos) << apart.out << apart.err;
  expect_error(graph({model, "--device", "rk3588"}), 2, "--stage fused");
  expect_error(graph({model, "--toolchain", "qairt", "--stage", "fused"}), 2, "--toolchain goes with --device");
  expect_error(graph({model, "--device", "rk3599", "--stage", "fused"}), 2, "rk3588");
  expect_error(graph({model, "--device", "rk3588", "--toolchain", "gcc", "--stage", "fused"}), 2, "gcc");
}

// Editors mark UTF-8; what people copy is often a part.
TEST(Graph, ATextOfAnyEditorAndNoPartOfOne) {
  TempDir folder;
  const std::string file = folder.file("g.txt");
  const std::string text = graph({model}).out;
  testing::write_file(file, fmt::format("\xef\xbb\xbf{}", text));
  EXPECT_EQ(graph({file}).out, text);
  expect_error(graph({file, "--dim", "n=1"}), 2, "for ONNX files");
  testing::write_file(file, graph({model, "--layers", "0"}).out);
  expect_error(graph({file}), 3, "a part of a graph");
  testing::write_file(file, text.substr(0, text.find("output %")));
  expect_error(graph({file}), 3, "cut off");
  testing::write_file(file, std::string(text).replace(text.find("[T, 64]"), 7, "[T, -64]"));
  expect_error(graph({file}), 3, "a dimension of -64");
}

TEST(Graph, NoOptionIsIgnored) {
  expect_error(graph({model, "--tokens", "4"}), 2, "--tokens: stage imported fixes no sizes");
  expect_error(graph({model, "--ctx", "64", "--stage", "canonical"}), 2, "--ctx: stage canonical");
  expect_error(graph({model, "--no-pass", "layout"}), 2, "no pass leads to stage imported");
  expect_error(graph({model, "--no-pass", "layout", "--stage", "canonical"}), 2, "pass layout leads to stage fused");
}

TEST(Graph, StandardOutputByAnotherName) {
  const std::vector<std::string> env{"KNAPSACK=" + binary(), "MODEL=" + model};
  for (const char* path : {"/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"}) {
    const std::string words = fmt::format("\"$KNAPSACK\" graph \"$MODEL\" -o {} ", path);
    EXPECT_TRUE(object_of(run({"bash", "-c", words + "--json"}, "", env)).contains("nodes")) << path;
    const auto text = run({"bash", "-c", words + "| cat"}, "", env);
    EXPECT_EQ(text.out, graph({model}).out) << path;
    EXPECT_EQ(text.err, "") << path;
  }
}

// A weight that is seen two ways is listed twice, and said to be one.
TEST(Graph, TiedWeightsAreOne) {
  const auto object = object_of(graph({model, "--stage", "primitive", "--json"}));
  std::string notes;
  for (const auto& value : object.at("values").as_array())
    if (value.as_object().at("note").is_string()) notes += value.as_object().at("note").as_string();
  EXPECT_NE(notes.find("the bytes of "), std::string::npos) << notes;
}

// A config that asks for millions of nodes is refused before they are made.
TEST(Graph, TooManyExpertsForPrimitiveOperators) {
  TempDir folder;
  const auto source = testing::data_path("golden/qwen2-moe/config.json");
  auto config = *parse_json_object(testing::read_file(source), "config.json");
  config["num_hidden_layers"] = 1000;
  config["num_experts"] = 128;
  config.erase("layer_types");
  testing::write_file(folder.file("config.json"), json::serialize(config));
  expect_error(graph({folder.file("config.json"), "--stage", "primitive"}), 4, "at most 1000000 are handled");
  expect_error(run({binary(), "inspect", folder.file("config.json"), "--device", "rk3588"}), 4, "are handled");
}

TEST(Graph, WhatIsRefused) {
  expect_error(graph({model, "--stage", "fused", "--no-pass", "fuse-all"}), 2, "merge-linears");
  expect_error(graph({model, "--stage", "static", "--tokens", "9", "--ctx", "8"}), 2, "does not fit a context of 8");
  expect_error(graph({model, "--dim", "batch=1"}), 2, "ONNX");
  expect_error(graph({model, "--passes", "--stage", "fused", "-o", "p.svg"}), 2, "standard output");
  expect_error(graph({model, "--prove"}), 2, "no pass leads to stage imported");
  {
    TempDir over;
    std::filesystem::copy(model, over.file("m"));
    const std::string weights = over.file("m") + "/model.safetensors";
    const std::string before = testing::read_file(weights);
    expect_error(graph({over.file("m") + "/config.json", "-o", weights}), 2, "model.safetensors");
    const std::string data = over.file("weights.data");
    std::filesystem::copy(weights, data);
    expect_error(graph({model, "-o", data}), 2, "is there already");
    EXPECT_TRUE(testing::read_file(weights) == before && testing::read_file(data) == before);
  }
  expect_error(graph({"qwen2.5-1.5b", "--stage", "fused", "--prove"}), 2, "weights of this model are not there");
  expect_error(graph({model, "--stage", "importet"}), 2, "did you mean imported?");
  expect_error(graph({model, "--format", "pdf"}), 2, "html");
  EXPECT_EQ(graph({model, "--format", "svg", "--json"}).exit_code, 2);
  expect_error(graph({model, "-o", model + "/config.json"}), 2, "the model itself");
  TempDir folder;
  expect_error(graph({model, "-o", folder.file("none/g.svg")}), 2, "none/g.svg");
  expect_error(graph({model, "-o", folder.file("g.png")}), 2, "no graph is written as .png");
  expect_error(graph({model, "--no-pass", "drop-dead"}), 2, "no pass leads to stage imported");
  expect_error(graph({model, "--stage", "fused", "--passes", "--layers", "0"}), 2, "the whole graph");
  expect_error(graph({folder.file("no-model")}), 2, "no-model");
  testing::write_file(folder.file("empty.gguf"), "");
  expect_error(graph({folder.file("empty.gguf")}), 3, "empty.gguf");
}

// Weights are not needed: the shapes of a 7B model come from its config.
TEST(Graph, AConfigAlone) {
  TempDir folder;
  std::filesystem::copy_file(model + "/config.json", folder.file("config.json"));
  const auto text = graph({folder.path().string()}).out;
  EXPECT_NE(text.find("\n# from a config.json alone"), std::string::npos) << text;
  testing::write_file(folder.file("g.txt"), text);
  EXPECT_EQ(graph({folder.file("g.txt")}).exit_code, 0);  // its comments do not hinder
  const auto big = graph({"qwen2.5-7b", "--format", "html"});
  EXPECT_EQ(big.exit_code, 0);
#if defined(__SANITIZE_ADDRESS__)
  constexpr long most_kib = 800 << 10;  // red zones, and freed blocks that are kept to catch their use
#else
  constexpr long most_kib = 200 << 10;
#endif
  EXPECT_LT(big.peak_rss_kib, most_kib);
}

TEST(Graph, NamesOfAnyLetters) {
  TempDir folder;
  const std::string name = "</script><script>x()</script>\\\"'&amp;\\x0a\xe5\xb1\x82";
  const std::string weight = fmt::format("@\"w{}\"", name);
  testing::write_file(folder.file("g.txt"),
                      fmt::format("knapsack-graph 1\ninput %ids [T, 1] I32\nconstant {0} [9, 32] Q8_0\n"
                                  "%\"{1}\" [T, 32] F32 = embed %ids, {0}\n"
                                  "%last [S, 32] F32 = select_rows %\"{1}\"\n"
                                  "%logits [S, 9] F32 = linear %last, {0}\noutput %logits\n",
                                  weight, name));
  const auto object = object_of(graph({folder.file("g.txt"), "--json"}));
  const std::string meant = "</script><script>x()</script>\"'&amp;\n\xe5\xb1\x82";
  named(object, "nodes", meant);
  EXPECT_EQ(named(object, "values", "w" + meant).at("dtype").as_string(), "Q8_0");
  const auto page = graph({folder.file("g.txt"), "--format", "html"}).out;
  EXPECT_EQ(page.find("<script>x()"), std::string::npos);
  EXPECT_NE(page.find("\xe5\xb1\x82"), std::string::npos);
  EXPECT_NE(page.find("8.5 bits (blocks of 32 in 34 bytes)"), std::string::npos);
  const auto svg = graph({folder.file("g.txt"), "--format", "svg"}).out;
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_NE(svg.find("\xe5\xb1\x82"), std::string::npos);
}

}  // namespace
}  // namespace knapsack
