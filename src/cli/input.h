// What a person gives a command to work on, and whose mistake it is where it is no good: on the command line a usage
// error, in a file or on standard input bad input (docs/errors.md). Not for models: cli/model.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack {

// How messages name the file; "-" is standard input.
std::string input_name(const std::string& path);

// A text in UTF-8, at most `limit` bytes, from a file or a pipe (`-f <(command)`), or from
// standard input for "-".
Result<std::string> read_text(const std::string& path, std::size_t limit);

// The error for something that stood in `origin` (an input_name); empty: on the command line.
template <class... A>
Error wrong_input(const std::string& origin, fmt::format_string<A...> f, A&&... a) {
  const std::string message = fmt::format(f, std::forward<A>(a)...);
  return origin.empty() ? usage_error("{}", message) : bad_input("{}: {}", origin, message);
}

// Token ids separated by commas, spaces or line ends.
Result<std::vector<std::int32_t>> read_ids(std::string_view text, const std::string& origin);

}  // namespace knapsack
