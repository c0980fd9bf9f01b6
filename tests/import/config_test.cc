// config.json with fields missing, of the wrong kind, out of range or against each other: one message naming file and
// field, exit code 3; what is valid but not known here: 4, by name. And the spellings that mean the same.
#include "import/folder.h"

namespace knapsack::testing {
namespace {

struct FieldCase {
  const char* golden;
  const char* field;
};

TEST(ConfigTest, NumbersThatAreMissingNegativeHugeOrNoNumbers) {
  const std::vector<FieldCase> cases{
      {"llama-llama3rope", "hidden_size"},
      {"llama-llama3rope", "num_hidden_layers"},
      {"llama-llama3rope", "num_attention_heads"},
      {"llama-llama3rope", "intermediate_size"},
      {"llama-llama3rope", "vocab_size"},
      {"llama-llama3rope", "max_position_embeddings"},
      {"llama-llama3rope", "rms_norm_eps"},
      {"qwen2-moe", "num_experts"},
      {"qwen2-moe", "moe_intermediate_size"},
      {"qwen2-moe", "num_experts_per_tok"},
      {"deepseek-v3", "kv_lora_rank"},
      {"deepseek-v3", "qk_rope_head_dim"},
      {"deepseek-v3", "v_head_dim"},
      {"deepseek-v3", "moe_intermediate_size"},
  };
  for (const auto& [golden, field] : cases) {
    const std::vector<std::pair<const char*, json::value>> values{
        {"missing", nullptr}, {"negative", -7}, {"huge", std::int64_t{1} << 62},
        {"enormous", 1e300},  {"text", "many"}, {"list", json::array{1}}};
    for (const auto& [how, value] : values) {
      SCOPED_TRACE(fmt::format("{} {} {}", golden, field, how));
      const BrokenModel model(golden);
      model.config([&, v = value](json::object& config) {
        if (v.is_null())
          config.erase(field);
        else
          config[field] = v;
      });
      const Error error = model.error();
      EXPECT_EQ(error.code, Code::bad_input);
      EXPECT_TRUE(says(error.message, "config.json")) << error.message;
      EXPECT_TRUE(says(error.message, field)) << error.message;
      EXPECT_TRUE(says(error.message, "must be") || says(error.message, "missing")) << error.message;
    }
  }
}

TEST(ConfigTest, OptionalNumbersOutOfRange) {
  for (const auto& [golden, field, value] : std::vector<std::tuple<const char*, const char*, json::value>>{
           {"llama-llama3rope", "num_key_value_heads", 0},
           {"llama-llama3rope", "num_key_value_heads", 3},
           {"llama-llama3rope", "head_dim", 15},
           {"llama-llama3rope", "head_dim", "16"},
           {"llama-llama3rope", "rope_theta", -1},
           {"llama-llama3rope", "tie_word_embeddings", "yes"},
           {"qwen2-moe", "num_experts_per_tok", 9},
           {"qwen2-moe", "decoder_sparse_step", 0},
           {"qwen2-moe", "mlp_only_layers", json::array{"0"}},
           {"deepseek-v3", "n_group", 3},
           {"deepseek-v3", "topk_group", 5},
           {"gemma3-text", "sliding_window", -8},
           {"gemma3-text", "layer_types", json::array{"full_attention"}},
           {"gemma3-text", "query_pre_attn_scalar", 0},
           {"phi3-longrope", "partial_rotary_factor", 0.5},
           {"qwen2-yarn", "rope_scaling", "yarn"}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", golden, field, json::serialize(value)));
    const BrokenModel model(golden);
    model.config([&, key = field, v = value](json::object& config) { config[key] = v; });
    const Error error = model.error();
    EXPECT_EQ(error.code, Code::bad_input);
    EXPECT_TRUE(says(error.message, "config.json")) << error.message;
  }
}

TEST(ConfigTest, UnknownThingsAreUnsupportedByName) {
  for (const auto& [golden, field, value, name] :
       std::vector<std::tuple<const char*, const char*, json::value, const char*>>{
           {"llama-llama3rope", "architectures", json::array{"MambaForCausalLM"}, "MambaForCausalLM"},
           {"llama-llama3rope", "hidden_act", "relu2", "relu2"},
           {"llama-llama3rope", "rope_scaling", json::object{{"rope_type", "spiral"}}, "spiral"},
           {"deepseek-v2-lite", "topk_method", "oracle", "oracle"},
           {"gemma3-text", "layer_types", json::array{"chunked_attention", "full_attention", "full_attention"},
            "chunked_attention"},
           {"llama-llama3rope", "quantization_config", json::object{{"quant_method", "hqq"}}, "hqq"},
           {"llama-gptq-4bit-g128", "quantization_config",
            json::object{{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}}, "3 bits"},
           {"llama-gptq-4bit-g128", "quantization_config",
            json::object{{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"format", "marlin"}}, "marlin"},
           {"llama-gptq-4bit-g128", "quantization_config",
            json::object{{"quant_method", "gptq"},
                         {"bits", 4},
                         {"group_size", 128},
                         {"dynamic", {{"-:lm_head", {{"bits", 8}}}}}},
            "dynamic"},
           {"llama-awq-4bit-g32", "quantization_config",
            json::object{{"quant_method", "awq"}, {"bits", 4}, {"group_size", 32}, {"version", "gemv"}}, "gemv"}}) {
    SCOPED_TRACE(fmt::format("{} {}", golden, field));
    const BrokenModel model(golden);
    model.config([&, key = field, v = value](json::object& config) { config[key] = v; });
    const Error error = model.error();
    EXPECT_EQ(error.code, Code::unsupported);
    EXPECT_TRUE(says(error.message, name)) << error.message;
  }
}

TEST(ConfigTest, AnUnknownArchitectureListsTheKnown) {
  const BrokenModel model("llama-llama3rope");
  model.config([](json::object& config) { config["architectures"] = json::array{"MambaForCausalLM"}; });
  for (const char* known : {"LlamaForCausalLM", "DeepseekV3ForCausalLM", "Phi3ForCausalLM"})
    EXPECT_TRUE(says(model.error().message, known));
}

// The same model said in another way gives the same logits.
void expect_same(const std::string& golden, const std::function<void(json::object&)>& change) {
  const Golden reference = load_golden(golden);
  const BrokenModel model(golden);
  model.config(change);
  Model run(model.path(), static_cast<std::int64_t>(reference.ids_a.size()), {});
  EXPECT_LE(max_error(run.logits(reference.ids_a), reference.logits_a), reference.tolerance) << golden;
}

TEST(ConfigTest, NewerSpellingOfRope) {
  const auto newer = [](json::object& config) {
    json::object rope = config["rope_scaling"].as_object();
    rope["rope_theta"] = config["rope_theta"];
    config.erase("rope_scaling");
    config.erase("rope_theta");
    config["rope_parameters"] = rope;
  };
  expect_same("qwen2-yarn", newer);
  expect_same("llama-llama3rope", newer);
  expect_same("deepseek-v3-yarn", newer);
  expect_same("llama-linear-bias", newer);
  expect_same("gemma3-linear", [](json::object& config) {
    config["rope_parameters"] = {
        {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", config["rope_theta"]}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config["rope_local_base_freq"]}}}};
    for (const char* key : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) config.erase(key);
  });
}

TEST(ConfigTest, OlderSpellings) {
  expect_same("qwen2-yarn", [](json::object& config) { config["rope_scaling"].as_object().erase("rope_type"); });
  expect_same("phi3-longrope", [](json::object& config) { config["rope_scaling"].as_object()["type"] = "su"; });
  expect_same("qwen2-window", [](json::object& config) { config.erase("layer_types"); });
  expect_same("gemma3-linear", [](json::object& config) {
    config.erase("layer_types");
    config["sliding_window_pattern"] = 2;
  });
  expect_same("qwen3-tied", [](json::object& config) { config.erase("architectures"); });  // the model type says it
}

TEST(ConfigTest, DynamicRopeWithinItsContextIsTheDefault) {
  const BrokenModel model("llama-sharded-bf16");
  model.config([](json::object& config) { config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}}; });
  EXPECT_TRUE(any_says(model.imported().oddities, "dynamic"));
}

TEST(ConfigTest, ALanguageModelInsideALargerOne) {
  const BrokenModel model("gemma3-text");
  model.config([](json::object& config) {
    json::object inner = config;
    inner.erase("architectures");
    config = {{"architectures", json::array{"Gemma3ForConditionalGeneration"}},
              {"model_type", "gemma3"},
              {"text_config", inner}};
  });
  model.tensors([](std::map<std::string, TensorBytes>& all) {
    std::map<std::string, TensorBytes> renamed;
    for (auto& [name, tensor] : all) renamed["language_model." + name] = tensor;
    renamed["vision_tower.patch.weight"] = {"F32", {1, 1}, std::string(4, '\0')};
    all = renamed;
  });
  const Golden reference = load_golden("gemma3-text");
  Model run(model.path(), 48, {});
  EXPECT_LE(max_error(run.logits(reference.ids_a), reference.logits_a), reference.tolerance);
  EXPECT_TRUE(any_says(run.imported().oddities, "vision_tower.patch.weight"));
}

}  // namespace
}  // namespace knapsack::testing
