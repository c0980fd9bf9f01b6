// UTF-8 checks, and text from outside made safe to print. Not for Unicode properties or normalization.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace knapsack {

// Bytes of the well-formed character at text[at]; 0 where there is none.
std::size_t utf8_character(std::string_view text, std::size_t at);
// Length of the longest valid prefix (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

// A name out of a file, in single quotes, for a message: control characters and invalid bytes become \xNN, and what
// is longer than `limit` bytes is cut with its length. A hostile name cannot drive the terminal.
std::string printable(std::string_view text, std::size_t limit = 96);

}  // namespace knapsack
