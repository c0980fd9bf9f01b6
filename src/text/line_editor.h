// Reading lines from a person: editing keys, history, several lines at once. For `chat`.
// A line that ends in a backslash goes on in the next one; a paste of several lines arrives as one. UTF-8 whatever the
// locale is. Not for input that is no terminal: read that with std::getline.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

class LineEditor {
 public:
  // history_file: "" for none; kept at no more than `capacity` entries. An unreadable one counts as empty.
  static Result<std::unique_ptr<LineEditor>> open(const std::string& history_file, std::size_t capacity);
  virtual ~LineEditor() = default;

  enum class Event { line, interrupted, end };  // interrupted: Ctrl-C; end: Ctrl-D on an empty line, or end of input
  struct Input {
    Event event = Event::end;
    std::string text;  // of Event::line, without the final newline; continuation backslashes are gone
  };
  // Waits for the person. The terminal is as it was when this returns. Keys that are not UTF-8 are `bad_input`, after
  // which reading may go on.
  virtual Result<Input> read(std::string_view prompt) = 0;
  // Puts a line into the history, and into its file. Failing to write the file is an error that may be ignored.
  virtual Result<void> remember(std::string_view line) = 0;
};

}  // namespace knapsack
