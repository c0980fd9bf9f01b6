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

// Makes sure that descriptors 0 to 2 are taken, so that no file we open becomes "standard output"; ignores SIGPIPE.
void prepare_standard_streams();

// Whole standard input, at most `limit` bytes.
Result<std::string> read_stdin(std::size_t limit);
// A user's text: a file of at most `limit` bytes, or standard input for "-".
Result<std::string> read_text(const std::string& path, std::size_t limit);

// "knapsack: error: MESSAGE" on stderr, one line whatever the message holds.
void print_error(const Error& error);

}  // namespace knapsack
