// Standard output, for results only: every write is checked, so a full disk or a closed stream is an error and never
// a silently short file. Logs, errors and progress go to stderr.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

class Output {
 public:
  Result<void> write(std::string_view text);
  Result<void> flush();
  // The reader of a pipe went away (`knapsack ... | head -1`): the error that write() gave is not worth a message.
  [[nodiscard]] bool reader_gone() const { return reader_gone_; }
  [[nodiscard]] bool used() const { return used_; }

 private:
  std::string buffer_;
  bool reader_gone_ = false;
  bool used_ = false;
};

// Makes sure that descriptors 0 to 2 are taken, so that no file we open becomes "standard output"; ignores SIGPIPE
// and SIGXFSZ, whose write() fails all the same.
void prepare_standard_streams();

// On stderr in one write, so that lines of several processes do not mix; nothing can be done where it fails.
void say(std::string_view text);

// "knapsack: error: MESSAGE" on stderr, one line whatever the message holds.
void print_error(const Error& error);

}  // namespace knapsack
