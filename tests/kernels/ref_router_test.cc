// The router's corners, by hand, as transformers' DeepSeek-V2/V3 and Qwen MoE blocks compute them.
#include <gtest/gtest.h>

#include "kernels/op_case.h"

namespace knapsack {
namespace {

using testing::OpCase;

OpCase router(std::vector<float> logits, std::int64_t top_k, Attrs attrs, std::vector<float> correction = {}) {
  const auto experts = static_cast<std::int64_t>(logits.size());
  OpCase c{.op = Op::router, .attrs = std::move(attrs), .rows = 1, .out_cols = {top_k, top_k}};
  c.attrs.set(Attr::experts, experts).set(Attr::top_k, top_k);
  c.in.push_back({.cols = experts, .f32 = std::move(logits)});
  if (!correction.empty()) c.in.push_back({.cols = experts, .weight = testing::vector_weight(std::move(correction))});
  return c;
}

Attrs v3() {
  return Attrs()
      .set(Attr::score, 1)
      .set(Attr::norm_topk, 1)
      .set(Attr::groups, 2)
      .set(Attr::top_groups, 1)
      .set(Attr::group_score, 1);
}

TEST(RefRouter, TiesGoToTheLowestIndex) {
  const auto out = testing::run_case(router({1, 2, 2, 1, 2}, 4, Attrs()));
  EXPECT_EQ(out[0], (std::vector<float>{1, 2, 4, 0}));
}

// sigmoid(0) = 0.5 everywhere. Group 0 wins with 0.5 + 0.1, its last expert's choice is 0.5 - 0.9 < 0, and so an
// expert of the excluded group, whose choice was set to 0, is taken. Its weight is its own score.
TEST(RefRouter, AnExcludedGroupsZeroBeatsANegativeChoice) {
  const auto out = testing::run_case(router({0, 0, 0, 0, 0, 0}, 3, v3(), {0.1F, 0, -0.9F, -0.3F, -0.3F, -0.3F}));
  EXPECT_EQ(out[0], (std::vector<float>{0, 1, 3}));
  for (const float w : out[1]) EXPECT_FLOAT_EQ(w, 1.0F / 3);
}

// V2 has no correction: the weight is the masked score itself.
TEST(RefRouter, WithoutCorrectionAnExcludedExpertWeighsNothing) {
  const auto out = testing::run_case(router({3, 0, 1, 2}, 3, Attrs().set(Attr::groups, 2).set(Attr::top_groups, 1)));
  EXPECT_EQ(out[0], (std::vector<float>{0, 1, 2}));
  EXPECT_GT(out[1][1], 0);
  EXPECT_EQ(out[1][2], 0);
}

TEST(RefRouter, TheCorrectionChoosesButDoesNotWeigh) {
  const auto out = testing::run_case(router({2, 1, 0}, 1, Attrs().set(Attr::score, 1), {0, 0, 5}));
  EXPECT_EQ(out[0], (std::vector<float>{2}));
  EXPECT_FLOAT_EQ(out[1][0], 0.5F);
}

TEST(RefRouter, GroupsByTheSumOfTwoNotTheBest) {
  // Choices: group 0 has 0.9 and 0.1, group 1 has 0.7 and 0.6.
  const auto logit = [](double p) { return static_cast<float>(std::log(p / (1 - p))); };
  const std::vector<float> logits{logit(0.9), logit(0.1), logit(0.7), logit(0.6)};
  EXPECT_EQ(testing::run_case(router(logits, 1, v3(), {0, 0, 0, 0}))[0][0], 2);
  Attrs by_best = Attrs().set(Attr::score, 1).set(Attr::groups, 2).set(Attr::top_groups, 1);
  EXPECT_EQ(testing::run_case(router(logits, 1, by_best))[0][0], 0);
}

TEST(RefRouter, LargeLogitsDoNotOverflow) {
  const auto out = testing::run_case(router({1000, 999, -1000}, 2, Attrs().set(Attr::norm_topk, 1)));
  EXPECT_NEAR(out[1][0], 1 / (1 + std::exp(-1.0)), 1e-6);
}

// Broken weights may bring NaN this far; the ids must stay inside the table of experts, and differ.
TEST(RefRouter, NanStillChoosesDifferentExperts) {
  const float nan = std::nanf("");
  for (const auto& logits : {std::vector<float>{nan, nan, nan, nan}, std::vector<float>{nan, 1, nan, 0}}) {
    for (const Attrs& attrs : {Attrs(), v3()}) {
      const auto out = testing::run_case(router(logits, 4, attrs));
      std::vector<float> chosen = out[0];
      std::sort(chosen.begin(), chosen.end());
      EXPECT_EQ(chosen, (std::vector<float>{0, 1, 2, 3}));
    }
  }
}

}  // namespace
}  // namespace knapsack
