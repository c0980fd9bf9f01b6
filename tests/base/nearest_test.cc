#include "base/nearest.h"

#include <gtest/gtest.h>

namespace knapsack {
namespace {

const std::vector<std::string> devices{"rk3588", "rk3576", "snapdragon-8-gen-3", "snapdragon-8-gen-2", "apple-m1"};

TEST(Nearest, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);  // swapped
}

TEST(Nearest, OneOrNone) {
  EXPECT_EQ(nearest("rk3558", devices), "rk3588");
  EXPECT_EQ(nearest("apple", devices), "apple-m1");
  EXPECT_EQ(nearest("toaster", devices), "");
}

TEST(Nearest, ThreeInOrder) {
  EXPECT_EQ(nearest_names("RK-3588", devices), (std::vector<std::string>{"rk3588", "rk3576", "apple-m1"}));
  EXPECT_EQ(nearest_names("Snapdragon 8 Gen 3", devices).at(0), "snapdragon-8-gen-3");
  const std::vector<std::string> models{"qwen2.5-1.5b", "deepseek-v2-lite", "deepseek-r1-distill-qwen-1.5b"};
  EXPECT_EQ(nearest_names("deepseek-r1-1.5b", models).at(0), models[2]);  // its words are all there
  EXPECT_EQ(nearest_names("qwen2.5-1.5", models).at(0), models[0]);
  // What holds the word is nearer than what merely is as short.
  EXPECT_EQ(nearest_names("dragon", devices, 2),
            (std::vector<std::string>{"snapdragon-8-gen-3", "snapdragon-8-gen-2"}));
  EXPECT_EQ(nearest_names("", devices).size(), 3U);
  EXPECT_EQ(nearest_names("x", {}).size(), 0U);
}

TEST(Nearest, ALongWordCostsNothing) {
  EXPECT_EQ(nearest_names(std::string(10'000'000, 'x'), devices).size(), 3U);
  EXPECT_EQ(nearest(std::string(10'000'000, 'x'), devices), "");
}

}  // namespace
}  // namespace knapsack
