#include "pipeline/pipeline.h"

#include <gtest/gtest.h>

#include "runtime/tiny_model.h"

namespace knapsack {
namespace {

TEST(Pipeline, TheBundleCarriesWhatWasImported) {
  auto imported = testing::tiny_imported(true);
  imported.eos_ids = {1, 5};
  imported.chat_template = "{{ messages }}";
  imported.model_hash = "abc";
  const auto bundle = *make_bundle(imported, {.chunk = 16, .max_selected = 4});
  EXPECT_EQ(bundle->name, "tiny");
  EXPECT_EQ(bundle->architecture, "llama");
  EXPECT_EQ(bundle->model_hash, "abc");
  EXPECT_EQ(bundle->vocab, 37);
  EXPECT_EQ(bundle->trained_ctx, 512);
  EXPECT_EQ(bundle->prefill->max_tokens, 16);
  EXPECT_EQ(bundle->prefill->max_selected, 4);
  EXPECT_EQ(bundle->decode->max_tokens, 16);
  EXPECT_EQ(bundle->decode->max_selected, 16);
  EXPECT_EQ(bundle->eos_ids, (std::vector<std::int32_t>{1, 5}));
  EXPECT_EQ(bundle->chat_template, "{{ messages }}");
  EXPECT_TRUE(bundle->tokenizer_json);
  // Both programs read the same weights, not copies.
  EXPECT_EQ(bundle->prefill->weights.size(), bundle->decode->weights.size());
  for (std::size_t i = 0; i < bundle->prefill->weights.size(); ++i)
    EXPECT_EQ(bundle->prefill->weights[i]->slabs, bundle->decode->weights[i]->slabs);
}

TEST(Pipeline, GenerationDefaultsAreReadAndNonsenseIsAnOddity) {
  auto imported = testing::tiny_imported(false);
  imported.generation_config_json =
      R"({"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":null,"repetition_penalty":1.1,"do_sample":true})";
  auto bundle = *make_bundle(imported, {});
  EXPECT_EQ(bundle->defaults.temperature, 0.6F);
  EXPECT_EQ(bundle->defaults.top_p, 0.95F);
  EXPECT_EQ(bundle->defaults.top_k, 20);
  EXPECT_FALSE(bundle->defaults.min_p);
  EXPECT_EQ(bundle->defaults.repetition_penalty, 1.1F);
  EXPECT_EQ(bundle->defaults.do_sample, true);
  EXPECT_TRUE(bundle->oddities.empty());
  imported.generation_config_json =
      R"({"temperature":"warm","top_p":1.5,"top_k":-3,"min_p":1e300,"repetition_penalty":[],"do_sample":"yes"})";
  bundle = *make_bundle(imported, {});
  EXPECT_FALSE(bundle->defaults.temperature || bundle->defaults.top_p || bundle->defaults.top_k);
  EXPECT_FALSE(bundle->defaults.min_p || bundle->defaults.repetition_penalty || bundle->defaults.do_sample);
  EXPECT_EQ(bundle->oddities.size(), 5U);
  for (const char* text : {"", "[]", "{", "{\"top_k\":1,\"top_k\":2}"}) {
    imported.generation_config_json = text;
    EXPECT_EQ((*make_bundle(imported, {}))->oddities.size(), 1U) << text;
  }
}

TEST(Pipeline, ChunksOutOfRangeAreUsageErrors) {
  const auto imported = testing::tiny_imported(false);
  for (const OpenOptions& options : {OpenOptions{.chunk = 0}, OpenOptions{.chunk = -5}, OpenOptions{.chunk = 1 << 20},
                                     OpenOptions{.max_selected = 0}, OpenOptions{.max_selected = 129},
                                     OpenOptions{.decode_rows = 0}, OpenOptions{.decode_rows = 1 << 20}}) {
    const auto bundle = make_bundle(imported, options);
    ASSERT_FALSE(bundle);
    EXPECT_EQ(bundle.error().code, Code::usage);
  }
}

}  // namespace
}  // namespace knapsack
