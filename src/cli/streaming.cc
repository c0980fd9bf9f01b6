#include "cli/streaming.h"

#include <unistd.h>

#include "report/terminal.h"

namespace knapsack {
namespace {

bool left_thinking(std::string_view prompt) {
  const std::size_t end = prompt.find_last_not_of(" \n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with("<think>");
}

}  // namespace

Streaming::Streaming(Output& out, Interruptible& interruptible, std::string_view prompt, bool silent)
    : out_(out),
      interruptible_(interruptible),
      screen_(is_terminal(STDOUT_FILENO), use_colour(STDOUT_FILENO), left_thinking(prompt)),
      silent_(silent) {}

Result<void> Streaming::finish(bool newline) {
  put(screen_.finish());
  if (newline && last_ != '\n') put("\n");
  return written_;
}

void Streaming::put(std::string_view text) {
  if (silent_ || !written_ || text.empty()) return;
  last_ = text.back();
  written_ = out_.write(text);
  if (written_) written_ = out_.flush();
  if (!written_) interruptible_.stop();
}

}  // namespace knapsack
