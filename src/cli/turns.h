// Where `chat` gets what the user says: a terminal with line editing and history, or lines from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/line_editor.h"

namespace knapsack {

class Turns {
 public:
  // A terminal only where standard input and output both are one.
  static Result<Turns> open();

  [[nodiscard]] bool interactive() const { return editor_ != nullptr; }
  // The next thing said; nothing at the end of input, or after Ctrl-C at the prompt. A line that ends in a backslash
  // goes on in the next; from a line that begins with """ everything up to the next """ is one text.
  Result<std::optional<std::string>> next();

 private:
  struct Line {
    bool there = false;
    std::string text;
  };
  Result<Line> read_line(const char* prompt);

  std::unique_ptr<LineEditor> editor_;
  std::string buffer_;  // read from the pipe, not handed out yet
  bool ended_ = false;
};

}  // namespace knapsack
