#include "cli/onnx_pins.h"

#include <charconv>
#include <cstdint>

#include "base/utf8.h"

namespace knapsack {
namespace {

Result<std::int64_t> size_of(std::string_view text, std::string_view whole) {
  std::int64_t size = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (failed != std::errc{} || end != text.data() + text.size() || size < 0)
    return usage_error("{}: expected NAME=SIZE with sizes of 0 or more", printable(whole));
  return size;
}

}  // namespace

Result<OnnxPins> read_pins(const std::vector<std::string>& dims, const std::vector<std::string>& shapes,
                           std::string_view shape_flag) {
  OnnxPins pins;
  // A name, and that it is pinned once.
  const auto name_of = [](std::string_view flag, const std::string& each, std::size_t equals,
                          const auto& pinned) -> Result<std::string> {
    std::string name = each.substr(0, equals);
    if (name.empty()) return usage_error("{} {}: expected a name before =", flag, printable(each));
    if (pinned.count(name) > 0) return usage_error("{} {}: '{}' is pinned already", flag, printable(each), name);
    return name;
  };
  for (const std::string& each : dims) {
    const auto equals = each.rfind('=');
    TRY(const std::string name, name_of("--dim", each, equals, pins.dims));
    TRY(pins.dims[name], size_of(equals == std::string::npos ? "" : each.substr(equals + 1), each));
  }
  for (const std::string& each : shapes) {
    const auto equals = each.rfind('=');
    TRY(const std::string name, name_of(shape_flag, each, equals, pins.shapes));
    std::vector<std::int64_t>& sizes = pins.shapes[name];
    std::string_view rest =
        equals == std::string::npos ? std::string_view{} : std::string_view(each).substr(equals + 1);
    while (true) {
      const auto comma = rest.find(',');
      TRY(const std::int64_t size, size_of(rest.substr(0, comma), each));
      sizes.push_back(size);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return pins;
}

}  // namespace knapsack
