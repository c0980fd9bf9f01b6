#include "runtime/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace knapsack {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
};

// Cuts text in pieces of at most `most` bytes (random lengths) and pushes them.
Outcome feed(const std::vector<std::string>& stops, const std::string& text, std::mt19937& random, std::size_t most) {
  StopStrings matcher(stops);
  Outcome outcome;
  for (std::size_t at = 0; at < text.size() && !outcome.stopped;) {
    const std::size_t n = std::min(text.size() - at, std::size_t{1} + random() % most);
    outcome.stopped = matcher.push(std::string_view(text).substr(at, n), outcome.text);
    at += n;
  }
  if (!outcome.stopped) matcher.finish(outcome.text);
  return outcome;
}

TEST(StopStrings, FindsThemAcrossPiecesAndEmitsNothingOfThem) {
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    auto o = feed({"\nUser:"}, "Hello.\nUser: hi", random, 5);
    EXPECT_TRUE(o.stopped);
    EXPECT_EQ(o.text, "Hello.");
    o = feed({"\nUser:"}, "Hello.\nUse", random, 5);
    EXPECT_FALSE(o.stopped);
    EXPECT_EQ(o.text, "Hello.\nUse");
  }
}

TEST(StopStrings, HoldsBackOnlyWhatCouldBecomeAStop) {
  StopStrings matcher({"END", "\n\n"});
  std::string out;
  EXPECT_FALSE(matcher.push("abcE", out));
  EXPECT_EQ(out, "abc");
  EXPECT_FALSE(matcher.push("N", out));
  EXPECT_EQ(out, "abc");
  EXPECT_FALSE(matcher.push("x", out));
  EXPECT_EQ(out, "abcENx");
  EXPECT_FALSE(matcher.push("\n", out));
  EXPECT_EQ(out, "abcENx");
  EXPECT_TRUE(matcher.push("\nmore", out));
  EXPECT_EQ(out, "abcENx");
}

TEST(StopStrings, OverlappingBeginnings) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(feed({"aab"}, "aaaaab", random, 3).text, "aaa");
    EXPECT_EQ(feed({"abab"}, "abaabab", random, 3).text, "aba");
  }
}

TEST(StopStrings, TheFirstCompleteWinsTheLongestOfThoseAtOnce) {
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(feed({"abcd", "bc"}, "xabcd", random, 6).text, "xa");
    EXPECT_EQ(feed({"c", "abc"}, "xabc", random, 6).text, "x");
    EXPECT_EQ(feed({"second", "first"}, "the first and second", random, 30).text, "the ");
  }
}

TEST(StopStrings, MultiByteStops) {
  std::mt19937 random(4);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(feed({"。"}, "你好。再见", random, 2).text, "你好");
    EXPECT_EQ(feed({"🙂"}, "ok 🙁 🙂", random, 2).text, "ok 🙁 ");
  }
}

TEST(StopStrings, NoneMeansAllPasses) {
  StopStrings matcher({});
  std::string out;
  EXPECT_FALSE(matcher.push("everything", out));
  matcher.finish(out);
  EXPECT_EQ(out, "everything");
}

TEST(StopStrings, RandomTextAgreesWithASearchFromTheStart) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto word = [&](std::size_t most) {
      std::string s(1 + random() % most, 'a');
      for (auto& c : s) c = static_cast<char>('a' + random() % 2);
      return s;
    };
    const std::string text = word(30);
    std::vector<std::string> stops;
    for (std::size_t n = random() % 3 + 1; n > 0; --n) stops.push_back(word(5));
    std::size_t end = text.size() + 1;
    std::size_t begin = text.size();
    for (const auto& stop : stops) {
      const auto at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
        end = at + stop.size();
        begin = at;
      }
    }
    const auto outcome = feed(stops, text, random, 4);
    EXPECT_EQ(outcome.text, text.substr(0, begin));
    EXPECT_EQ(outcome.stopped, end <= text.size());
  }
}

}  // namespace
}  // namespace knapsack
