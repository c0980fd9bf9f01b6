// Tensors that do not fit the config: all of them listed at once. Heads that contradict their tying; packed weights
// whose parts do not fit; what is surplus but harmless.
#include <limits>

#include "import/folder.h"

namespace knapsack::testing {
namespace {

using Tensors = std::map<std::string, TensorBytes>;

TEST(TensorsTest, MissingSurplusAndMisshapenAtOnce) {
  const BrokenModel model("llama-llama3rope");
  model.tensors([](Tensors& all) {
    all.erase("model.norm.weight");
    all.erase("model.layers.1.self_attn.k_proj.weight");
    all["model.layers.2.mlp.up_proj.weight"].shape = {64, 160};
    all["model.layers.0.self_attn.q_proj.bias"] = {"F32", {64}, std::string(256, '\0')};
    all["model.layers.7.extra.weight"] = {"F32", {2}, std::string(8, '\0')};
  });
  const Error error = model.error();
  EXPECT_EQ(error.code, Code::bad_input);
  for (const char* line :
       {"missing: model.norm.weight [64]", "missing: model.layers.1.self_attn.k_proj.weight [32, 64]",
        "misshapen: model.layers.2.mlp.up_proj.weight: expected [160, 64], found [64, 160]",
        "surplus: model.layers.0.self_attn.q_proj.bias", "surplus: model.layers.7.extra.weight", "5 problems"})
    EXPECT_TRUE(says(error.message, line)) << line << "\n" << error.message;
}

TEST(TensorsTest, ExpertsAreNamedOneByOne) {
  const BrokenModel model("qwen2-moe");
  model.tensors([](Tensors& all) {
    all.erase("model.layers.1.mlp.experts.5.up_proj.weight");
    all["model.layers.2.mlp.experts.0.down_proj.weight"].shape = {32, 64};
  });
  const std::string message = model.error().message;
  EXPECT_TRUE(says(message, "missing: model.layers.1.mlp.experts.5.up_proj.weight")) << message;
  EXPECT_TRUE(says(message, "misshapen: model.layers.2.mlp.experts.0.down_proj.weight")) << message;
}

TEST(TensorsTest, AConfigOfManyLayersStopsListing) {
  const BrokenModel model("qwen2-moe");
  model.config([](json::object& config) {
    config["num_hidden_layers"] = 4096;
    config["num_experts"] = 4096;
    config["mlp_only_layers"] = json::array{};
  });
  const Error error = model.error();
  EXPECT_EQ(error.code, Code::bad_input);
  EXPECT_LT(error.message.size(), 100000U);
}

TEST(TensorsTest, HeadsAgainstTheirTying) {
  const BrokenModel untied("qwen2-tied-gqa");
  untied.config([](json::object& config) { config["tie_word_embeddings"] = false; });
  EXPECT_EQ(untied.error().code, Code::bad_input);
  EXPECT_TRUE(says(untied.error().message, "missing: lm_head.weight"));

  const BrokenModel copied("qwen2-tied-gqa");
  copied.tensors([](Tensors& all) { all["lm_head.weight"] = all["model.embed_tokens.weight"]; });
  EXPECT_TRUE(any_says(copied.imported().oddities, "lm_head.weight"));

  const BrokenModel other("llama-llama3rope");
  other.config([](json::object& config) { config["tie_word_embeddings"] = true; });
  EXPECT_EQ(other.error().code, Code::bad_input);
  EXPECT_TRUE(says(other.error().message, "surplus: lm_head.weight"));
  EXPECT_TRUE(says(other.error().message, "tie_word_embeddings"));
}

TEST(TensorsTest, HarmlessSurplus) {
  const BrokenModel model("deepseek-v3");
  model.tensors([](Tensors& all) {
    all["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {4}, std::string(16, '\0')};
    all["model.layers.3.eh_proj.weight"] = {"F32", {1, 1}, std::string(4, '\0')};
  });
  const auto oddities = model.imported().oddities;
  EXPECT_TRUE(any_says(oddities, "inv_freq"));
  EXPECT_TRUE(any_says(oddities, "multi-token prediction"));
}

TEST(TensorsTest, IntegersAreNoWeights) {
  const BrokenModel model("llama-llama3rope");
  model.tensors([](Tensors& all) { all["model.layers.0.self_attn.q_proj.weight"].dtype = "I32"; });
  EXPECT_EQ(model.error().code, Code::bad_input);
  EXPECT_TRUE(says(model.error().message, "I32"));
}

TEST(TensorsTest, NotANumber) {
  const BrokenModel model("llama-llama3rope");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  model.tensors([&](Tensors& all) {
    std::memcpy(all["model.norm.weight"].bytes.data() + 8, &nan, sizeof nan);
    std::memcpy(all["lm_head.weight"].bytes.data() + 16, &nan, sizeof nan);
  });
  EXPECT_TRUE(any_says(model.imported().oddities, "model.norm.weight"));
  double last = 0;
  const auto report = check_model(model.path(), [&](double done) { last = done; });
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(last, 1);
  EXPECT_EQ(report->faults.size(), 2U);
  EXPECT_TRUE(any_says(report->faults, "lm_head.weight"));
  EXPECT_EQ(report->sha256.size(), 64U);
  const auto clean = check_model(data_path("golden/llama-llama3rope"), {});
  ASSERT_TRUE(clean.has_value());
  EXPECT_TRUE(clean->faults.empty());
  EXPECT_NE(clean->sha256, report->sha256);
}

TEST(TensorsTest, PackedWeightsWhosePartsDoNotFit) {
  const std::string stem = "model.layers.0.mlp.up_proj.";
  const BrokenModel zeros("llama-gptq-4bit-g128");
  zeros.tensors([&](Tensors& all) { all.erase(stem + "qzeros"); });
  EXPECT_TRUE(says(zeros.error().message, "qzeros is missing"));

  const BrokenModel scales("llama-awq-4bit-g32");
  scales.config([](json::object& config) { config["quantization_config"].as_object()["group_size"] = 64; });
  EXPECT_TRUE(says(scales.error().message, "scales: expected F16"));

  const BrokenModel group("llama-gptq-8bit-all-v2");
  group.tensors([&](Tensors& all) { all[stem + "g_idx"].bytes[0] = 9; });
  EXPECT_EQ(group.error().code, Code::bad_input);
  EXPECT_TRUE(says(group.error().message, "g_idx[0]"));

  const BrokenModel order("llama-gptq-8bit-all-v2");
  order.tensors([&](Tensors& all) { all.erase(stem + "g_idx"); });
  EXPECT_TRUE(says(order.error().message, "desc_act"));

  const BrokenModel fp8("llama-fp8-blocks");
  fp8.tensors([&](Tensors& all) { all.erase(stem + "weight_scale_inv"); });
  EXPECT_TRUE(says(fp8.error().message, "weight_scale_inv is missing"));

  const BrokenModel nothing("llama-gptq-4bit-g128");
  nothing.config([](json::object& config) { config.erase("quantization_config"); });
  EXPECT_TRUE(says(nothing.error().message, "quantize_config.json"));
}

TEST(TensorsTest, ZeroBiasesOfPackedModelsAreHarmless) {
  const BrokenModel model("llama-gptq-4bit-g128");
  model.tensors([](Tensors& all) { all["model.layers.0.mlp.up_proj.bias"] = {"F16", {256}, std::string(512, '\0')}; });
  EXPECT_TRUE(any_says(model.imported().oddities, "a bias of zeros"));
}

TEST(TensorsTest, WhatAModelIsStoredIn) {
  for (const auto& [golden, dtype] :
       std::vector<std::pair<const char*, DType>>{{"llama-gptq-4bit-g128", DType::G4},
                                                  {"llama-awq-4bit-g32", DType::G4},
                                                  {"llama-gptq-8bit-all-v2", DType::G8},
                                                  {"qwen2-gptq-4bit-g32-actorder", DType::G4},
                                                  {"phi3-gptq-8bit-g32-actorder", DType::G8},
                                                  {"llama-gptq-4bit-g16", DType::F32},
                                                  {"deepseek-v3-fp8", DType::F8_B32},
                                                  {"llama-sharded-bf16", DType::BF16}}) {
    const auto model = import_model(data_path(std::string("golden/") + golden), {});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    bool found = false;
    for (const Value& value : model->graph.values())
      if (value.kind == ValueKind::constant && value.weight->name.find("o_proj.weight") != std::string::npos)
        found = found || value.weight->dtype == dtype;
    EXPECT_TRUE(found) << golden;
  }
}

TEST(FolderTest, WhatIsNoModel) {
  const TempDir temp;
  EXPECT_TRUE(says(import_model(temp.path().string(), {}).error().message, "config.json"));
  write_file(temp.file("a.gguf"), "x");
  EXPECT_TRUE(says(import_model(temp.path().string(), {}).error().message, "a.gguf"));
  EXPECT_FALSE(import_model(temp.file("absent"), {}).has_value());
  write_file(temp.file("model.safetensors"), "x");
  EXPECT_TRUE(says(import_model(temp.file("model.safetensors"), {}).error().message, "name its folder"));
}

TEST(FolderTest, EndTokensAndTemplates) {
  const BrokenModel model("qwen2-moe");
  EXPECT_EQ(model.imported().eos_ids, std::vector<std::int32_t>{1});
  model.json_file("generation_config.json", [](json::object& config) { config["eos_token_id"] = json::array{5, 6}; });
  const auto several = model.imported();
  EXPECT_EQ(several.eos_ids, (std::vector<std::int32_t>{5, 6}));
  EXPECT_TRUE(any_says(several.oddities, "eos_token_id 1"));
  model.remove("generation_config.json");
  model.config([](json::object& config) { config["eos_token_id"] = nullptr; });
  EXPECT_EQ(model.imported().eos_ids.size(), 1U);  // the tokenizer's own

  model.json_file("tokenizer_config.json", [](json::object& config) {
    config["chat_template"] =
        json::array{{{"name", "tools"}, {"template", "T"}}, {{"name", "default"}, {"template", "D"}}};
  });
  EXPECT_EQ(model.imported().chat_template, "D");
  model.write("chat_template.jinja", "J");
  EXPECT_EQ(model.imported().chat_template, "J");
  model.write("tokenizer_config.json", "{");
  EXPECT_EQ(model.error().code, Code::bad_input);
}

}  // namespace
}  // namespace knapsack::testing
