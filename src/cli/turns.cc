#include "cli/turns.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "base/utf8.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

constexpr std::size_t history_entries = 1000;
constexpr std::size_t most_bytes = std::size_t{64} << 20;  // of one text
constexpr const char* fence = "\"\"\"";

// $KNAPSACK_HISTORY, else knapsack/chat_history in the XDG state folder, which is made. Empty: no history is kept.
std::string history_file() {
  if (const char* named = std::getenv("KNAPSACK_HISTORY"); named != nullptr) return named;
  std::filesystem::path folder;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return "";
  }
  folder /= "knapsack";
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return failed ? "" : (folder / "chat_history").string();
}

}  // namespace

Result<Turns> Turns::open() {
  Turns turns;
  if (is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO)) {
    TRY(turns.editor_, LineEditor::open(history_file(), history_entries));
  }
  return turns;
}

Result<Turns::Line> Turns::read_line(const char* prompt) {
  if (editor_ != nullptr) {
    TRY(LineEditor::Input input, editor_->read(prompt));
    return Line{input.event == LineEditor::Event::line, std::move(input.text)};
  }
  while (!ended_ && buffer_.find('\n') == std::string::npos) {
    char block[65536];
    const ssize_t n = ::read(STDIN_FILENO, block, sizeof(block));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad_input("standard input: cannot read: {}", std::strerror(errno));
    ended_ = n == 0;
    buffer_.append(block, static_cast<std::size_t>(n));
    if (buffer_.size() > most_bytes) return bad_input("standard input: a line of more than {} bytes", most_bytes);
  }
  if (buffer_.empty()) return Line{};
  const std::size_t end = std::min(buffer_.find('\n'), buffer_.size());
  Line line{true, buffer_.substr(0, end)};
  buffer_.erase(0, end + 1);
  if (line.text.ends_with('\r')) line.text.pop_back();
  if (!is_valid_utf8(line.text))
    return bad_input("standard input: expected text in UTF-8, found something else at byte {} of a line",
                     valid_utf8_prefix(line.text));
  return line;
}

Result<std::optional<std::string>> Turns::next() {
  TRY(Line line, read_line("> "));
  if (!line.there) return std::optional<std::string>();
  std::string text = std::move(line.text);
  const auto add_line = [&]() -> Result<bool> {
    TRY(Line more, read_line("... "));
    if (more.there) text += "\n" + more.text;
    if (text.size() > most_bytes) return bad_input("standard input: a text of more than {} bytes", most_bytes);
    return more.there;
  };
  bool there = true;
  if (text.starts_with(fence)) {
    text.erase(0, std::strlen(fence));
    while (there && text.find(fence) == std::string::npos) {
      TRY(there, add_line());
    }
    if (!there && editor_ == nullptr)
      return bad_input("standard input: a text that begins with \"\"\" ends without them; close it with \"\"\"");
    if (!there) return std::optional<std::string>();
    text.erase(text.find(fence));
    if (text.starts_with('\n')) text.erase(0, 1);
    if (text.ends_with('\n')) text.pop_back();
  } else {
    while (there && text.ends_with('\\')) {
      text.pop_back();
      TRY(there, add_line());
    }
  }
  if (editor_ != nullptr && text.find_first_not_of(" \t\n") != std::string::npos) {
    // A history that cannot be written is a pity, not a reason to stop talking.
    if (auto kept = editor_->remember(text); !kept) info("{}", kept.error().message);
  }
  return std::optional(std::move(text));
}

}  // namespace knapsack
