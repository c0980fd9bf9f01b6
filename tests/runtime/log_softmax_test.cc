#include "runtime/log_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace knapsack {
namespace {

TEST(LogSoftmax, SumAndBest) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.2F), std::log(0.1F)};
  EXPECT_NEAR(log_sum_exp(logits), 0, 1e-6);
  const auto found = token_logprob(logits, 4, 3);
  EXPECT_EQ(found.id, 4);
  EXPECT_NEAR(found.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(found.top.size(), 3U);
  EXPECT_EQ(found.top[0].first, 1);
  EXPECT_EQ(found.top[1].first, 2);  // ties to the lower id
  EXPECT_EQ(found.top[2].first, 3);
  EXPECT_NEAR(found.top[0].second, std::log(0.4), 1e-6);
}

TEST(LogSoftmax, LargeLogitsAndManyAlternatives) {
  const std::vector<float> logits = {1000, 999, -1000};
  EXPECT_NEAR(log_sum_exp(logits), 1000 + std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(token_logprob(logits, 0, 100).top.size(), 3U);
  EXPECT_TRUE(token_logprob(logits, 0, 0).top.empty());
}

TEST(LogSoftmax, BrokenLogits) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(log_sum_exp(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()})));
  EXPECT_TRUE(std::isnan(log_sum_exp(std::vector<float>{1, inf})));
  EXPECT_EQ(log_sum_exp(std::vector<float>{-inf, -inf}), -static_cast<double>(inf));
}

}  // namespace
}  // namespace knapsack
