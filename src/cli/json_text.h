// JSON as the commands print it: one line, shortest numbers that read back the same, null for what is not finite.
#pragma once

#include <string>

#include "base/json.h"

namespace knapsack {

// Strings are made valid UTF-8 first (a path may hold any bytes).
std::string json_text(const json::value& value);

// What --json prints when a command fails: {"error": {"code": 3, "message": "..."}}.
std::string json_error(const Error& error);
// Of a process that a signal ends: 128 + its number.
std::string json_error(const Error& error, int exit_code);

}  // namespace knapsack
