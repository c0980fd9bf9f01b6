// What tests of commands ask of a result: its JSON, or the one error that it should be.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "support/support.h"

namespace knapsack::testing {

// Standard output as JSON, whatever the exit code.
inline json::object object_of(const CommandResult& result) {
  auto parsed = parse_json_object(result.out, "stdout");
  EXPECT_TRUE(parsed) << result.out << result.err;
  return parsed ? *parsed : json::object();
}

// Of a command that must have succeeded.
inline json::object object_of_success(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return object_of(result);
}

// Nothing on standard output, and a message with that part.
inline void expect_error(const CommandResult& result, int code, const std::string& part) {
  EXPECT_EQ(result.exit_code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

}  // namespace knapsack::testing
