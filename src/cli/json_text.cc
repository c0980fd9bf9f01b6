#include "cli/json_text.h"

#include <fmt/format.h>

#include <cmath>

#include "report/terminal.h"

namespace knapsack {
namespace {

void append(std::string& out, const json::value& value) {
  bool first = true;
  const auto comma = [&] {
    if (!first) out += ", ";
    first = false;
  };
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      break;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case json::kind::int64:
      out += fmt::format("{}", value.get_int64());
      break;
    case json::kind::uint64:
      out += fmt::format("{}", value.get_uint64());
      break;
    case json::kind::double_:
      out += std::isfinite(value.get_double()) ? fmt::format("{}", value.get_double()) : "null";
      break;
    case json::kind::string:
      append_json_string(out, valid_utf8(value.get_string()));
      break;
    case json::kind::array:
      out += '[';
      for (const auto& item : value.get_array()) {
        comma();
        append(out, item);
      }
      out += ']';
      break;
    case json::kind::object:
      out += '{';
      for (const auto& member : value.get_object()) {
        comma();
        append_json_string(out, valid_utf8(member.key()));
        out += ": ";
        append(out, member.value());
      }
      out += '}';
      break;
  }
}

}  // namespace

std::string json_text(const json::value& value) {
  std::string out;
  append(out, value);
  return out;
}

std::string json_error(const Error& error) { return json_error(error, static_cast<int>(error.code)); }

std::string json_error(const Error& error, int exit_code) {
  return json_text(json::object{{"error", {{"code", exit_code}, {"message", error.message}}}});
}

}  // namespace knapsack
