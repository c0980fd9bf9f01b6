// Another program beside this one: answers, ends, hangs, says too much.
#include "base/process.h"

#include <gtest/gtest.h>

#include <thread>

namespace knapsack {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds enough{20000};

Result<std::unique_ptr<Process>> shell(const std::string& program) {
  return Process::start({"sh", "-c", program}, "the program");
}
std::string failure(const std::string& program, milliseconds limit = enough) {
  auto made = shell(program);
  if (!made) return made.error().message;
  const auto answer = (*made)->ask("hello", limit, {});
  return answer ? "answered " + *answer : answer.error().message;
}

TEST(Process, AnswersLineByLine) {
  auto made = shell("while read -r line; do echo \"<$line>\"; done");
  ASSERT_TRUE(made) << made.error().message;
  for (const std::string line : {"one", "two words", ""})
    EXPECT_EQ((*made)->ask(line, enough, {}).value(), "<" + line + ">");
  const std::string large(3 << 20, 'x');  // more than a socket holds
  EXPECT_EQ((*made)->ask(large, enough, {}).value(), "<" + large + ">");
}

TEST(Process, AnswersThatComeTogetherAreApart) {
  auto made = shell("echo one; echo two; cat > /dev/null");
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->ask("", enough, {}).value(), "one");
  EXPECT_EQ((*made)->ask("", enough, {}).value(), "two");
}

TEST(Process, HowItEndedIsTold) {
  EXPECT_EQ(failure("echo no such luck >&2; echo at all >&2; exit 7"),
            "the program ended with exit code 7; its standard error: no such luck | at all");
  EXPECT_EQ(failure("exit 0"), "the program ended with exit code 0; it said nothing on standard error");
  EXPECT_EQ(failure("kill -SEGV $$"), "the program was ended by signal 11; it said nothing on standard error");
  EXPECT_NE(failure("exec >&- <&-; exec sleep 60").find("closed its output before it had answered"), std::string::npos);
  const std::string much = failure("yes word | head -c 100000 >&2; exit 1");
  EXPECT_NE(much.find("its standard error ends"), std::string::npos);
  EXPECT_LT(much.size(), 4000);
  auto made = shell("exit 3");
  ASSERT_TRUE(made);
  EXPECT_FALSE((*made)->ask("", enough, {}));
  EXPECT_EQ((*made)->ask("", enough, {}).error().message, "the program has ended");
}

TEST(Process, NoSuchProgramIsUsage) {
  const auto made = Process::start({"no-such-program-at-all"}, "the program");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::usage);
  EXPECT_EQ(made.error().message, "cannot start the program ('no-such-program-at-all'): No such file or directory");
}

TEST(Process, OneThatHangsIsEndedWithItsChildren) {
  auto made = shell("sleep 300 & echo $!; read -r line; wait");
  ASSERT_TRUE(made);
  const std::string child = (*made)->ask("", enough, {}).value();
  const auto late = (*made)->ask("", milliseconds(200), {});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::resource);
  EXPECT_NE(late.error().message.find("took longer than 0.2 s and was ended"), std::string::npos);
  std::this_thread::sleep_for(milliseconds(100));
  // Gone, or a zombie that nobody has waited for yet.
  auto state = shell("cut -d' ' -f3 /proc/" + child + "/stat 2> /dev/null || echo gone; cat > /dev/null");
  const std::string word = (*state)->ask("", enough, {}).value();
  EXPECT_TRUE(word == "gone" || word == "Z") << word;
}

TEST(Process, AStopEndsIt) {
  auto made = shell("exec sleep 300");
  ASSERT_TRUE(made);
  std::stop_source source;
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(100));
    source.request_stop();
  });
  const auto answer = (*made)->ask("", enough, source.get_token());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::interrupted);
}

}  // namespace
}  // namespace knapsack
