#include "cli/input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "base/utf8.h"
#include "cli/arguments.h"

namespace knapsack {
namespace {

Result<std::string> read_stdin(std::size_t limit) {
  std::string text;
  while (true) {
    const std::size_t had = text.size();
    text.resize(had + (1 << 16));
    const ssize_t n = ::read(STDIN_FILENO, text.data() + had, text.size() - had);
    text.resize(had + static_cast<std::size_t>(n > 0 ? n : 0));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) return bad_input("standard input: cannot read: {}", std::strerror(errno));
    if (text.size() > limit) return bad_input("standard input: more than the {} bytes allowed here", limit);
  }
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  TRY(std::string text, path == "-" ? read_stdin(limit) : read_text_file(path, limit));
  if (!is_valid_utf8(text))
    return bad_input("{}: expected text in UTF-8, found something else at byte {}", input_name(path),
                     valid_utf8_prefix(text));
  return text;
}

Result<std::vector<std::int32_t>> read_ids(std::string_view text, const std::string& origin) {
  auto ids = to_ids(text);
  if (!ids) return wrong_input(origin, "{}", ids.error().message);
  return ids;
}

}  // namespace knapsack
