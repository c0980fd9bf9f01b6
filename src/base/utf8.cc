#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace knapsack {
std::size_t utf8_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // bounds of the second byte
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (at + length > text.size() || byte(at + 1) < low || byte(at + 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_character(text, at);
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out = "'";
  std::size_t at = 0;
  while (at < text.size() && at < limit) {
    const std::size_t length = utf8_character(text, at);
    const auto lead = static_cast<unsigned char>(text[at]);
    // C1 controls (U+0080 to U+009F, lead byte 0xc2) drive some terminals as C0 controls do.
    const bool control = length == 0 || lead < 0x20 || lead == 0x7f ||
                         (length == 2 && lead == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (control) {
      for (std::size_t i = 0; i < std::max<std::size_t>(length, 1); ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
    } else {
      out.append(text.substr(at, length));
    }
    at += std::max<std::size_t>(length, 1);
  }
  out.push_back('\'');
  if (at < text.size()) out += fmt::format(" (cut; {} bytes)", text.size());
  return out;
}

}  // namespace knapsack
