// What a terminal is told and can show: colours, width, columns of UTF-8 text, text made safe to print.
// Not for deciding what to say. Everything is UTF-8 whatever the locale.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace knapsack {

bool is_terminal(int fd);
// A terminal that is not "dumb", and NO_COLOR is not set (no-color.org).
bool use_colour(int fd);
int terminal_width(int fd);  // columns; 80 when unknown

// Columns the text takes: East Asian wide characters and emoji count two, combining marks none.
std::size_t display_width(std::string_view text);

// A whole message as one line: control characters as \x1b, \n; bytes that are not UTF-8 as \xff.
// (base/utf8.h's printable() is for one quoted name within a message.)
std::string one_line(std::string_view text);
// The same bytes with whatever is not UTF-8 replaced by U+FFFD: for JSON strings.
std::string valid_utf8(std::string_view text);

// "93.8 MiB", "1.50 GiB", "512 B"; 12345678 -> "12,345,678"; 134515008 -> "134.5 M".
std::string format_bytes(double bytes);
std::string format_count(long long count);
std::string format_scaled(double count);

}  // namespace knapsack
