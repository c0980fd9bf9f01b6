#include "base/json.h"

#include "base/mmap.h"

namespace knapsack {
Result<json::value> parse_json(std::string_view text, const std::string& origin) {
  json::parse_options options;
  options.max_depth = 64;
  json::error_code code;
  json::stream_parser parser({}, options);
  const std::size_t used = parser.write_some(text.data(), text.size(), code);
  if (!code && used < text.size()) {
    const auto rest = text.substr(used).find_first_not_of(" \t\r\n");
    if (rest != std::string_view::npos)
      return bad_input("{}: not JSON: unexpected text after the value, at byte {}", origin, used + rest);
  }
  if (!code) parser.finish(code);
  if (code) return bad_input("{}: not JSON: {} at byte {}", origin, code.message(), used);
  return parser.release();
}

Result<std::string> read_text_file(const std::string& path, std::size_t limit) {
  TRY(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  if (bytes.size() > limit) return bad_input("{}: {} bytes; a text file here has at most {}", path, bytes.size(), limit);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace knapsack
