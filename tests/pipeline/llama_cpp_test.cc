// A real model against what llama.cpp made of it, from tests/data/llama_cpp.json (tests/full/compare_llama.py writes
// it, and compares more). Skipped where the set-up did not fetch the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "evaluate/perplexity.h"
#include "pipeline/pipeline.h"
#include "support/support.h"

namespace knapsack {
namespace {

constexpr const char* model_name = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::vector<std::int32_t> ids_of(const json::value& array) {
  std::vector<std::int32_t> ids;
  for (const auto& id : array.as_array()) ids.push_back(id.to_number<std::int32_t>());
  return ids;
}

class LlamaCpp : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "minutes under a sanitizer; what it would find is covered by smaller models";
#endif
    const auto path = testing::source_dir() / "models" / model_name;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    golden_ = *parse_json(testing::read_file(testing::data_path("data/llama_cpp.json")), "llama_cpp.json");
    auto bundle = open_bundle(path.string(), {.ctx = 512, .max_selected = 128});
    ASSERT_TRUE(bundle) << bundle.error().message;
    auto session = Session::create(*bundle, {.ctx = 512});
    ASSERT_TRUE(session) << session.error().message;
    session_ = std::move(*session);
  }
  const json::object& golden() { return golden_.as_object().at(model_name).as_object(); }
  // Logits after the last of `ids`.
  std::vector<float> last_logits(const std::vector<std::int32_t>& ids) {
    std::vector<float> last;
    EXPECT_TRUE(session_->score(
        ids, static_cast<std::int64_t>(ids.size()) - 1,
        [&](auto, auto, std::span<const float> logits) { last.assign(logits.begin(), logits.end()); }, {}));
    return last;
  }

  json::value golden_;
  std::unique_ptr<Session> session_;
};

// Equal, or the first difference is a near-tie: the top two closer than twice the engines' largest difference there
// (over the five logits that are recorded), and closer than 0.5.
TEST_F(LlamaCpp, GreedyTextIsTheSameOrPartsAtANearTie) {
  std::istringstream lines(testing::read_file(testing::data_path("data/prompts.txt")));
  const auto tokenizer = session_->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::string prompt;
  for (const auto& row : golden().at("greedy").as_array()) {
    ASSERT_TRUE(std::getline(lines, prompt));
    const auto& theirs = row.as_object();
    const auto prompt_ids = ids_of(theirs.at("prompt_ids"));
    EXPECT_EQ(*(*tokenizer)->encode(prompt, true), prompt_ids) << prompt;
    const auto result = session_->generate(prompt_ids, {.max_tokens = 64}, {}, {});
    ASSERT_TRUE(result) << result.error().message;
    const auto ids = ids_of(theirs.at("ids"));
    if (result->ids == ids) {
      EXPECT_EQ(result->text, std::string(theirs.at("text").as_string())) << prompt;
      continue;
    }
    const auto [ours, other] = std::mismatch(result->ids.begin(), result->ids.end(), ids.begin(), ids.end());
    const auto step = static_cast<std::size_t>(ours - result->ids.begin());
    auto so_far = prompt_ids;
    so_far.insert(so_far.end(), ids.begin(), other);
    const auto logits = last_logits(so_far);
    const auto& top = theirs.at("top").as_array().at(step).as_array();
    double difference = 0;
    for (const auto& entry : top)
      difference =
          std::max(difference, std::abs(entry.as_array()[1].to_number<double>() -
                                        static_cast<double>(logits[entry.as_array()[0].to_number<std::size_t>()])));
    const double gap = top[0].as_array()[1].to_number<double>() - top[1].as_array()[1].to_number<double>();
    std::printf("%.30s: parts at token %zu, top-2 gap %.4f, largest difference %.4f\n", prompt.c_str(), step, gap,
                difference);
    EXPECT_LT(gap, 2 * difference) << prompt;
    EXPECT_LT(gap, 0.5) << prompt;
  }
}

TEST_F(LlamaCpp, PerplexityOfFourChunksAgrees) {
  // Somewhat more than four chunks of 512 tokens, less than five.
  const std::string text = testing::read_file(testing::data_path("data/perplexity.txt")).substr(0, 10000);
  const auto report = perplexity(*session_, text, {.method = PerplexityMethod::llama});
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->windows, 4);
  const double theirs = golden().at("perplexity").as_object().at("of_4_chunks").to_number<double>();
  std::printf("perplexity %.4f, llama.cpp %.4f\n", report->perplexity, theirs);
  // llama.cpp's rounding of activations costs it 0.4 % over the whole text (33.35 for our 33.21), which the full tier
  // holds to 0.5 %; a thousand tokens scatter more.
  EXPECT_NEAR(report->perplexity / theirs, 1, 0.01);
}

}  // namespace
}  // namespace knapsack
