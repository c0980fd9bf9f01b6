// The table of choices: what is built in, what a file may say, and that no choice changes a bit.
#include "kernels/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/support.h"

namespace knapsack {
namespace {

const PackedKind four{.bits = 4, .groups = 1, .zero = 8};

TEST(Choices, BuiltInSaysEverything) {
  // Every choice has a line for all instruction sets and codes, and is among what tune tries.
  const auto lines = Choices::built_in().lines();
  for (const ChoiceInfo& info : all_choices()) {
    const auto at = std::find_if(lines.begin(), lines.end(), [&](const ChoiceLine& line) {
      return line.choice == info.choice && !line.isa && line.codes == "*";
    });
    ASSERT_NE(at, lines.end()) << info.name;
    for (const std::int64_t value : info.candidates) {
      EXPECT_GE(value, info.low);
      EXPECT_LE(value, info.high);
      EXPECT_EQ(value % info.step, 0);
    }
    EXPECT_NE(std::find(info.candidates.begin(), info.candidates.end(), at->value), info.candidates.end());
  }
  EXPECT_EQ(Choices::built_in().packed(Isa::avx2, four).ahead, 1536);
  EXPECT_EQ(Choices::built_in().packed(Isa::neon, four).ahead, 1024);
}

TEST(Choices, ALaterLineWins) {
  const auto choices = Choices::parse(
      "# a comment\n"
      "* * one ahead 512\r\n"
      "\n"
      "avx2 4+min one ahead 0   # none\n"
      "avx2\t6/16 many vectors 1",
      "mine");
  ASSERT_TRUE(choices) << choices.error().message;
  EXPECT_EQ(choices->packed(Isa::avx2, four).ahead, 512);
  EXPECT_EQ(choices->packed(Isa::avx2, {.bits = 4, .min = true}).ahead, 0);
  EXPECT_EQ(choices->packed(Isa::neon, {.bits = 4, .min = true}).ahead, 512);
  EXPECT_EQ(choices->packed(Isa::avx2, {.bits = 6, .groups = 2, .zero = 32}).vectors, 1);
  ASSERT_EQ(choices->lines().size(), 3U);
  // What is written is read as the same.
  for (const ChoiceLine& line : choices->lines()) {
    const auto again = Choices::parse(line.text(), "again");
    ASSERT_TRUE(again) << line.text();
    EXPECT_EQ(again->lines()[0].text(), line.text());
  }
}

TEST(Choices, WhatIsNoChoiceIsRefusedByItsLine) {
  const auto refused = [](const std::string& line, const std::string& part) {
    const auto choices = Choices::parse("* * one ahead 64\n\n" + line + "\n", "mine");
    ASSERT_FALSE(choices) << line;
    EXPECT_EQ(choices.error().code, Code::bad_input);
    EXPECT_EQ(choices.error().message.find("mine: line 3: "), 0U) << choices.error().message;
    EXPECT_NE(choices.error().message.find(part), std::string::npos) << choices.error().message;
  };
  refused("avx2", "1 word, the first 'avx2'");
  refused("avx2 4 one ahead 64 64", "6 words");
  refused("sse 4 one ahead 64", "sse");
  refused("avx2 7 one ahead 64", "expected codes *, 4");
  refused("avx2 4 two ahead 64", "one ahead");
  refused("avx2 4 many ahead 64", "many vectors");
  refused("avx2 4 one speed 64", "speed");
  for (const char* value : {"-64", "65", "16448", "x", "64x", "1e3", "0x40", "9223372036854775808", "+64"})
    refused("avx2 4 one ahead " + std::string(value), "from 0 to 16384 in steps of 64");
  refused("avx2 4 many vectors 3", "from 1 to 2");
  refused(std::string("\0\x1b[31m 4 one ahead 64", 21), "\\x1b");
  refused("{\"choices\": []}", "2 words");
  refused(std::string(100000, 'a') + " 4 one ahead 64", "100000");
}

class ChoicesFile : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"KNAPSACK_CHOICES", "XDG_CONFIG_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value != nullptr ? std::optional<std::string>(value) : std::nullopt);
      unsetenv(name);
    }
    std::filesystem::create_directories(folder_ / "knapsack");
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  }
  static std::int64_t ahead() { return Choices::in_use()->packed(Isa::avx2, four).ahead; }

  testing::TempDir temporary_;
  const std::filesystem::path& folder_ = temporary_.path();

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(ChoicesFile, OfTheUsersIsRead) {
  EXPECT_EQ(ahead(), 1536);
  EXPECT_EQ(Choices::in_use()->file(), "");
  setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  EXPECT_EQ(ahead(), 1536) << "there is none yet";
  std::ofstream(folder_ / "knapsack" / "choices") << "avx2 * one ahead 256\n";
  EXPECT_EQ(ahead(), 256);
  EXPECT_EQ(Choices::in_use()->file(), folder_ / "knapsack" / "choices");
  EXPECT_EQ(Choices::in_use()->packed(Isa::avx2, four).vectors, 2) << "what it does not say is as built in";
  std::ofstream(folder_ / "other") << "avx2 4 one ahead 128\n";
  setenv("KNAPSACK_CHOICES", (folder_ / "other").c_str(), 1);
  EXPECT_EQ(ahead(), 128);
  setenv("KNAPSACK_CHOICES", "", 1);
  EXPECT_EQ(ahead(), 1536);
}

TEST_F(ChoicesFile, ThatIsBrokenIsAnError) {
  setenv("KNAPSACK_CHOICES", (folder_ / "absent").c_str(), 1);
  EXPECT_FALSE(Choices::in_use());
  setenv("KNAPSACK_CHOICES", folder_.c_str(), 1);
  EXPECT_FALSE(Choices::in_use()) << "a folder";
  std::ofstream(folder_ / "large") << std::string((1 << 20) + 1, '#');
  setenv("KNAPSACK_CHOICES", (folder_ / "large").c_str(), 1);
  EXPECT_FALSE(Choices::in_use());
}

}  // namespace
}  // namespace knapsack
