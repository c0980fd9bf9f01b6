// What is chosen of what was measured, what is written of it, and that every choice is measured; never how fast it is.
#include "evaluate/tune.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace knapsack {
namespace {

Tuned tuned_of(double noise, std::vector<Tried> tried) {
  return {
      .codes = "4", .choice = Choice::ahead, .before = 1536, .chosen = 1536, .noise = noise, .tried = std::move(tried)};
}

TEST(Tune, OnlyWhatIsFasterForSureIsChosen) {
  const Tried slower{.value = 0, .ratio = 0.9, .spread = 0.01};
  EXPECT_EQ(best_value(tuned_of(0, {slower})), 1536);
  EXPECT_EQ(best_value(tuned_of(0, {slower, {.value = 512, .ratio = 1.05, .spread = 0.04}})), 512);
  EXPECT_EQ(best_value(tuned_of(0, {slower, {.value = 512, .ratio = 1.05, .spread = 0.06}})), 1536);
  EXPECT_EQ(best_value(tuned_of(0.06, {slower, {.value = 512, .ratio = 1.05, .spread = 0.01}})), 1536);
  EXPECT_EQ(best_value(tuned_of(0, {{.value = 512, .ratio = 1.009, .spread = 0}})), 1536) << "not worth it";
  EXPECT_EQ(best_value(tuned_of(
                0, {{.value = 512, .ratio = 1.1, .spread = 0.01}, {.value = 1024, .ratio = 1.2, .spread = 0.01}})),
            1024);
  EXPECT_EQ(best_value(tuned_of(0, {})), 1536);
}

TEST(Tune, TheFileSaysWhatWasChosenAndKeepsTheRest) {
  Tuned changed = tuned_of(0, {{.value = 512, .ratio = 1.25, .spread = 0.01}});
  changed.chosen = 512;
  Tuned kept = tuned_of(0, {});
  kept.codes = "8";
  const auto before = Choices::parse("* * one ahead 64\navx512 * one ahead 128\navx2 8 one ahead 192\n", "before");
  const std::string text = choices_text(Isa::avx2, {changed, kept}, before->lines());
  EXPECT_NE(text.find("1.250 times as fast as 1536"), std::string::npos) << text;
  const auto after = Choices::parse(text, "after");
  ASSERT_TRUE(after) << after.error().message;
  std::vector<std::string> lines;
  for (const ChoiceLine& line : after->lines()) lines.push_back(line.text());
  EXPECT_EQ(lines, (std::vector<std::string>{"* * one ahead 64", "avx512 * one ahead 128", "avx2 4 one ahead 512",
                                             "avx2 8 one ahead 1536"}));
}

TEST(Tune, WhatIsBuiltInIsNotSaidAndWhatWasNotMeasuredStays) {
  const Tuned kept = tuned_of(0, {});
  EXPECT_EQ(choices_text(Isa::avx2, {kept}, {}).find("avx2 4"), std::string::npos);
  const auto before = Choices::parse("avx2 * one pieces 4\navx2 * one ahead 128\navx2 8 one ahead 64\n", "before");
  const auto after = Choices::parse(choices_text(Isa::avx2, {kept}, before->lines()), "after");
  ASSERT_TRUE(after) << after.error().message;
  ASSERT_EQ(after->lines().size(), 3U);
  EXPECT_EQ(after->lines()[0].text(), "avx2 * one pieces 4");
  EXPECT_EQ(after->lines()[1].text(), "avx2 8 one ahead 64");
  EXPECT_EQ(after->lines()[2].text(), "avx2 4 one ahead 1536");
}

TEST(Tune, IsStoppedWithinAChoice) {
  std::stop_source source;
  TuneOptions options{.isa = supported_isas().back(), .threads = 1, .seconds = 600, .bytes = 1 << 20};
  if (options.isa == Isa::scalar) GTEST_SKIP() << "scalar has nothing to choose";
  options.progress = [&](double) { std::thread([&source] { source.request_stop(); }).detach(); };
  const auto all = tune(options, source.get_token());
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::interrupted);
}

TEST(Tune, EveryChoiceThatMattersIsMeasured) {
  const Isa isa = supported_isas().back();
  TuneOptions options{.isa = isa, .threads = 2, .seconds = 0.0001, .bytes = 1 << 20};
  double last = -1;
  options.progress = [&](double done) {
    EXPECT_GT(done, last);
    EXPECT_LT(done, 1);
    last = done;
  };
  const auto all = tune(options);
  ASSERT_TRUE(all) << all.error().message;
  std::set<std::pair<std::string, Choice>> seen;
  for (const Tuned& tuned : *all) {
    EXPECT_TRUE(seen.emplace(tuned.codes, tuned.choice).second);
    const ChoiceInfo& info = all_choices()[static_cast<std::size_t>(tuned.choice)];
    EXPECT_EQ(tuned.tried.size() + 1, info.candidates.size()) << info.name;
    for (const Tried& tried : tuned.tried) {
      EXPECT_GT(tried.ratio, 0);
      EXPECT_GE(tried.spread, 0);
    }
  }
  EXPECT_TRUE(seen.contains({"*", Choice::pieces_one}));
  if (isa != Isa::scalar) {
    EXPECT_TRUE(seen.contains({"4+min", Choice::ahead}));
    EXPECT_TRUE(seen.contains({"6/16", Choice::ahead}));
  }
  EXPECT_TRUE(Choices::parse(choices_text(isa, *all, {}), "written"));
}

TEST(Tune, Stopped) {
  std::stop_source source;
  source.request_stop();
  const auto all = tune({.isa = supported_isas().back()}, source.get_token());
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::interrupted);
}

}  // namespace
}  // namespace knapsack
