// JSON from outside: boost.json behind one strict door. Include only from .cc files that read or write JSON.
#pragma once

#include <boost/json.hpp>

#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

namespace json = boost::json;

// Strict RFC 8259 with duplicate keys refused and depth capped at 64. `origin` (a path, or "header of PATH") heads
// the message of an error, which also names the byte offset.
Result<json::value> parse_json(std::string_view text, const std::string& origin);

// Whole small text file (<= limit bytes), for config.json and its like.
Result<std::string> read_text_file(const std::string& path, std::size_t limit = std::size_t{64} << 20);

}  // namespace knapsack
