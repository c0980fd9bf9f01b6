#include "cli/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "cli/arguments.h"

namespace knapsack {
namespace {

bool is_pipe(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

Result<std::string> read_bytes(const std::string& path, std::size_t limit) {
  if (path == "-") return read_to_end(STDIN_FILENO, input_name(path), limit);
  if (!is_pipe(path)) return read_text_file(path, limit);
  const Descriptor pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (pipe.get() < 0) return bad_input("{}: cannot open: {}", path, std::strerror(errno));
  return read_to_end(pipe.get(), path, limit);
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

Result<std::string> read_text(const std::string& path, std::size_t limit) {
  TRY(std::string text, read_bytes(path, limit));
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
