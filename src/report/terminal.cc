#include "report/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/utf8.h"

namespace knapsack {
namespace {

using CodeRange = std::pair<std::uint32_t, std::uint32_t>;

// Unicode's East Asian Width W and F, and emoji shown wide, coarsely: enough to align a table.
constexpr std::array<CodeRange, 17> wide_ranges{{{0x1100, 0x115f},
                                                 {0x2329, 0x232a},
                                                 {0x2e80, 0x303e},
                                                 {0x3041, 0x33ff},
                                                 {0x3400, 0x4dbf},
                                                 {0x4e00, 0x9fff},
                                                 {0xa000, 0xa4cf},
                                                 {0xa960, 0xa97c},
                                                 {0xac00, 0xd7a3},
                                                 {0xf900, 0xfaff},
                                                 {0xfe30, 0xfe6f},
                                                 {0xff00, 0xff60},
                                                 {0xffe0, 0xffe6},
                                                 {0x1f300, 0x1f64f},
                                                 {0x1f680, 0x1f6ff},
                                                 {0x1f900, 0x1f9ff},
                                                 {0x20000, 0x3fffd}}};
constexpr std::array<CodeRange, 7> zero_width_ranges{{{0x0300, 0x036f},
                                                      {0x0483, 0x0489},
                                                      {0x0591, 0x05bd},
                                                      {0x200b, 0x200f},
                                                      {0x20d0, 0x20ff},
                                                      {0xfe00, 0xfe0f},
                                                      {0x1f3fb, 0x1f3ff}}};

template <std::size_t N>
bool inside(const std::array<CodeRange, N>& ranges, std::uint32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const CodeRange& r) { return code >= r.first && code <= r.second; });
}

// Length of the character at the start of text; 0 when there is none (malformed, cut).
std::size_t utf8_length(std::string_view text) { return text.empty() ? 0 : utf8_character(text, 0); }

// text starts with a whole character of `length` bytes.
std::uint32_t code_point(std::string_view text, std::size_t length) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  if (length == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3fU);
  return code;
}

}  // namespace

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

bool use_colour(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal(fd) && (no_colour == nullptr || *no_colour == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

int terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 80;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text));
    const std::uint32_t code = utf8_length(text) == 0 ? 0 : code_point(text, length);
    width += inside(wide_ranges, code) ? 2 : inside(zero_width_ranges, code) ? 0 : 1;
    text.remove_prefix(length);
  }
  return width;
}

std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text.front());
    // C1 controls (U+0080 to U+009F) can drive a terminal as ESC does.
    const bool c1 = length == 2 && lead == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 1 && text.front() == '\n') {
      out += "\\n";
    } else if (length == 1 && text.front() == '\t') {
      out += ' ';
    } else if (length == 0 || c1 || lead < 0x20 || lead == 0x7f) {
      for (const char c : text.substr(0, std::max<std::size_t>(1, length)))
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    out.append(length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f} B", bytes);
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 ? 2 : bytes < 100 ? 1 : 0, units[unit]);
}

std::string format_count(long long count) {
  std::string digits = std::to_string(count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_scaled(double count) {
  constexpr std::array<const char*, 5> units{"", " k", " M", " B", " T"};
  std::size_t unit = 0;
  while (count >= 1000 && unit + 1 < units.size()) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}", count);
  return fmt::format("{:.{}f}{}", count, count < 10 ? 2 : 1, units[unit]);
}

}  // namespace knapsack
