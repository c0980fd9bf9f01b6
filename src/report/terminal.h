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

// For one line of a message: control characters as \x1b, \n; bytes that are not UTF-8 as \xff.
std::string printable(std::string_view text);
// The same bytes with whatever is not UTF-8 replaced by U+FFFD: for JSON strings.
std::string valid_utf8(std::string_view text);
// Length of the UTF-8 character at the start of text; 0 when there is none (malformed, surrogate, cut).
std::size_t utf8_length(std::string_view text);

// "93.8 MiB", "1.50 GiB", "512 B"; 12345678 -> "12,345,678"; 134515008 -> "134.5 M".
std::string format_bytes(double bytes);
std::string format_count(long long count);
std::string format_scaled(double count);

}  // namespace knapsack
