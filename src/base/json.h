// JSON from outside: boost.json behind one strict door. Include only from .cc files that read or write JSON.
#pragma once

#include <boost/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace knapsack {

namespace json = boost::json;

// Strict RFC 8259 with duplicate keys refused and depth capped at 64. Two liberties, for what real checkpoints hold: a
// UTF-8 byte order mark is skipped, and Infinity (with or without a minus sign) is read as Python writes it; NaN is
// not. `origin` (a path, or "header of PATH") heads the message of an error, which also names the byte offset.
Result<json::value> parse_json(std::string_view text, const std::string& origin);
// The same, where the value must be an object.
Result<json::object> parse_json_object(std::string_view text, const std::string& origin);

// Whole small text file (<= limit bytes), for config.json and its like.
Result<std::string> read_text_file(const std::string& path, std::size_t limit = std::size_t{64} << 20);

// Appends UTF-8 text as a JSON string, quotation marks and all.
void append_json_string(std::string& out, std::string_view text);

// "an object", "a string" ...: the kind of a value, for messages.
std::string_view json_kind(const json::value& value);

// Typed fields. Absent, of another type or out of [min, max] is an error that names origin, key, expected and found.
// An integral float (131072.0) counts as an integer; true and false never count as numbers.
Result<std::int64_t> json_int(const json::object& object, std::string_view key, const std::string& origin,
                              std::int64_t min = INT64_MIN, std::int64_t max = INT64_MAX);
Result<double> json_number(const json::object& object, std::string_view key, const std::string& origin, double min,
                           double max);  // finite
Result<bool> json_bool(const json::object& object, std::string_view key, const std::string& origin);
Result<std::string> json_string(const json::object& object, std::string_view key, const std::string& origin);
Result<const json::object*> json_object(const json::object& object, std::string_view key, const std::string& origin);
Result<const json::array*> json_array(const json::object& object, std::string_view key, const std::string& origin);

// The same where absent and null mean "not given"; another type is still an error.
Result<std::optional<std::int64_t>> json_int_if(const json::object& object, std::string_view key,
                                                const std::string& origin, std::int64_t min = INT64_MIN,
                                                std::int64_t max = INT64_MAX);
Result<std::optional<double>> json_number_if(const json::object& object, std::string_view key,
                                             const std::string& origin, double min, double max);
Result<std::optional<bool>> json_bool_if(const json::object& object, std::string_view key, const std::string& origin);
Result<std::optional<std::string>> json_string_if(const json::object& object, std::string_view key,
                                                  const std::string& origin);
Result<const json::object*> json_object_if(const json::object& object, std::string_view key,
                                           const std::string& origin);  // null: not given
Result<const json::array*> json_array_if(const json::object& object, std::string_view key, const std::string& origin);

}  // namespace knapsack
