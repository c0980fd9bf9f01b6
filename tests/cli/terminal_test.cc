// chat and run at a terminal: line editing, history, Ctrl-C in both its meanings, colours, nothing left behind.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "report/progress.h"
#include "support/support.h"

namespace knapsack {
namespace {

using testing::binary;
using testing::TempDir;

const std::string talker = testing::data_path("golden/qwen2-tied-gqa").string();

// The program, or a function, on a pseudo-terminal of its own.
class Terminal {
 public:
  Terminal(std::vector<std::string> words, const std::vector<std::string>& env)
      : Terminal([&] {
          words.insert(words.begin(), binary());
          for (const auto& e : env) putenv(const_cast<char*>(e.c_str()));
          std::vector<char*> argv;
          for (auto& word : words) argv.push_back(word.data());
          argv.push_back(nullptr);
          execv(argv[0], argv.data());
          _exit(127);
        }) {}
  explicit Terminal(const std::function<void()>& child) {
    child_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      child();
      _exit(0);
    }
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // What came until `mark` was there; fails after a minute without it.
  std::string wait_for(const std::string& mark) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (seen_.find(mark) == std::string::npos) {
      pollfd ready{fd_, POLLIN, 0};
      poll(&ready, 1, 100);
      char block[4096];
      const ssize_t n = (ready.revents & (POLLIN | POLLHUP)) != 0 ? read(fd_, block, sizeof(block)) : 0;
      if (n > 0) seen_.append(block, static_cast<std::size_t>(n));
      if (n < 0 || std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << "never saw \"" << mark << "\" but:\n" << seen_;
        break;
      }
    }
    const std::size_t at = seen_.find(mark);
    std::string before = seen_.substr(0, at == std::string::npos ? at : at + mark.size());
    seen_.erase(0, before.size());
    return before;
  }

  int exit_code() {
    int status = 0;
    char block[4096];
    while (read(fd_, block, sizeof(block)) > 0) {
    }
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  int fd_ = -1;
  pid_t child_ = -1;
  std::string seen_;
};

void say(const std::string& text) { EXPECT_EQ(write(2, text.data(), text.size()), static_cast<ssize_t>(text.size())); }

TEST(BusyTerminal, ShowsItselfAfterASecondAndGoesAway) {
  Terminal terminal([] {
    {
      const Busy busy("loading a\x1b[2Jb", false);
      char key = 0;
      EXPECT_EQ(read(0, &key, 1), 1);
    }
    say("done");
  });
  EXPECT_TRUE(terminal.wait_for(" s\033[K").starts_with("\rloading a\\x1b[2Jb ... "));
  terminal.type("\n");
  EXPECT_TRUE(terminal.wait_for("done").ends_with("\r\033[Kdone"));
}

TEST(BusyTerminal, ALabelTooWideIsCutToItsFirstWord) {
  Terminal terminal([] {
    const Busy busy("loading " + std::string(100, 'm'), false);
    char key = 0;
    EXPECT_EQ(read(0, &key, 1), 1);
  });
  EXPECT_TRUE(terminal.wait_for(" s\033[K").starts_with("\rloading ... "));
  terminal.type("\n");
}

TEST(BusyTerminal, ShortWorkAndQuietShowNothing) {
  Terminal terminal([] {
    { const Busy busy("loading", false); }
    {
      const Busy busy("loading", true);
      std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    }
    say("done");
  });
  EXPECT_EQ(terminal.wait_for("done"), "done");
}

TEST(ChatTerminal, LinesAreEditedAndRemembered) {
  TempDir folder;
  const std::string history = folder.file("history");
  const std::vector<std::string> env{"KNAPSACK_HISTORY=" + history, "TERM=xterm"};
  {
    Terminal terminal({"chat", talker, "-n", "4", "--greedy"}, env);
    terminal.wait_for("> ");
    terminal.type("helxx\x7f\x7flo\r");
    terminal.wait_for("tokens/s");
    terminal.wait_for("> ");
    terminal.type("/save " + folder.file("talk") + "\r");
    terminal.wait_for("2 messages saved");
    terminal.wait_for("> ");
    terminal.type("\x04");
    EXPECT_EQ(terminal.exit_code(), 0);
  }
  EXPECT_NE(testing::read_file(folder.file("talk")).find("\"content\": \"hello\""), std::string::npos);
  EXPECT_NE(testing::read_file(history).find("hello\n"), std::string::npos);
  Terminal again({"chat", talker, "-n", "4", "--greedy"}, env);
  again.wait_for("> ");
  again.type("\x1b[A\x1b[A\r");  // two entries up: hello
  again.wait_for("tokens/s");
  again.wait_for("> ");
  again.type("/exit\r");
  EXPECT_EQ(again.exit_code(), 0);
}

TEST(ChatTerminal, SeveralLinesAreOneText) {
  TempDir folder;
  Terminal terminal({"chat", talker, "-n", "2", "--greedy"}, {"KNAPSACK_HISTORY=", "TERM=xterm"});
  terminal.wait_for("> ");
  terminal.type("\"\"\"one\r");
  terminal.wait_for("... ");
  terminal.type("two\"\"\"\r");
  terminal.wait_for("tokens/s");
  terminal.wait_for("> ");
  terminal.type("/save " + folder.file("talk") + "\r");
  terminal.wait_for("saved");
  EXPECT_NE(testing::read_file(folder.file("talk")).find("\"content\": \"one\\ntwo\""), std::string::npos);
}

TEST(ChatTerminal, WhatIsTypedOrPastedAheadIsNotLost) {
  TempDir folder;
  Terminal terminal({"chat", talker, "-n", "2", "--greedy"}, {"KNAPSACK_HISTORY=", "TERM=xterm"});
  terminal.wait_for("> ");
  terminal.type("first\r\"\"\"second\rthird\"\"\"\r/save " + folder.file("talk") + "\r");
  terminal.wait_for("4 messages saved");
  EXPECT_NE(testing::read_file(folder.file("talk")).find("\"content\": \"second\\nthird\""), std::string::npos);
}

TEST(ChatTerminal, KeysThatAreNotUtf8AreToldAndTheTalkGoesOn) {
  Terminal terminal({"chat", talker, "-n", "2", "--greedy"}, {"KNAPSACK_HISTORY=", "TERM=xterm", "NO_COLOR=1"});
  terminal.wait_for("> ");
  terminal.type("caf\xe9\r");
  terminal.wait_for("error: expected text in UTF-8");
  terminal.wait_for("> ");
  terminal.type("hello\r");
  terminal.wait_for("tokens/s");
  terminal.wait_for("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(ChatTerminal, CtrlCStopsTheAnswerAndAtThePromptLeaves) {
  Terminal terminal({"chat", talker, "--ctx", "200000", "--ignore-eos", "--greedy"},
                    {"KNAPSACK_HISTORY=", "TERM=xterm"});
  terminal.wait_for("> ");
  terminal.type("hello\r");
  terminal.wait_for("hello");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // let it speak
  terminal.type("\x03");
  terminal.wait_for("stopped");
  terminal.wait_for("> ");
  terminal.type("/stats\r");
  terminal.wait_for("1 answer;");
  terminal.wait_for("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(ChatTerminal, AMistakeIsToldAndTheTalkGoesOn) {
  Terminal terminal({"chat", talker, "-n", "2", "--ctx", "64"}, {"KNAPSACK_HISTORY=", "TERM=xterm", "NO_COLOR=1"});
  terminal.wait_for("> ");
  terminal.type("/nothing\r");
  terminal.wait_for("error: /nothing: no such command");
  terminal.wait_for("> ");
  terminal.type(std::string(300, 'x') + "\r");
  terminal.wait_for("/reset starts afresh");
  terminal.wait_for("> ");
  terminal.type("hello\r");
  terminal.wait_for("tokens/s");
  terminal.wait_for("> ");
  terminal.type("/load /no/such/file\r");
  terminal.wait_for("error: /no/such/file: cannot open");
  terminal.wait_for("> ");
  terminal.type("\x04");
  EXPECT_EQ(terminal.exit_code(), 0);
}

TEST(RunTerminal, CtrlCEndsWithFiguresAndExitCode130) {
  Terminal terminal({"run", talker, "-p", "hello", "--ctx", "200000", "--ignore-eos"}, {"TERM=dumb"});
  terminal.wait_for("was trained for");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  terminal.type("\x03");
  terminal.wait_for("stopped");
  EXPECT_EQ(terminal.exit_code(), 130);
}

}  // namespace
}  // namespace knapsack
