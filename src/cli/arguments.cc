#include "cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "report/terminal.h"

namespace knapsack {
namespace {

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    parts.emplace_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return parts;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 60;  // a message stays one readable line
  std::string shown = one_line(text.substr(0, most));
  return "\"" + shown + (text.size() > most ? "...\"" : "\"");
}

Result<std::int64_t> to_integer(std::string_view text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::invalid_argument || end != text.data() + text.size() || text.empty())
    return usage_error("expected a whole number from {} to {}, found {}", low, high, in_quotes(text));
  if (failure == std::errc::result_out_of_range || value < low || value > high)
    return usage_error("expected {} to {}, found {}", low, high, in_quotes(text));
  return value;
}

Result<double> to_number(std::string_view text, double low, double high) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::invalid_argument || end != text.data() + text.size() || text.empty() || std::isnan(value))
    return usage_error("expected a number from {} to {}, found {}", low, high, in_quotes(text));
  if (failure == std::errc::result_out_of_range || !(value >= low && value <= high))
    return usage_error("expected {} to {}, found {}", low, high, in_quotes(text));
  return value;
}

Result<std::vector<std::int32_t>> to_ids(std::string_view text) {
  constexpr std::string_view separators = ", \t\r\n";
  std::vector<std::int32_t> ids;
  while (true) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    auto id = to_integer(word, 0, INT32_MAX);
    if (!id) return usage_error("token id {}: {}", ids.size() + 1, id.error().message);
    ids.push_back(static_cast<std::int32_t>(*id));
    text.remove_prefix(word.size());
  }
}

void Arguments::about(std::string text) { about_ = std::move(text); }

void Arguments::example(std::string line, std::string says) { examples_.push_back({std::move(line), std::move(says)}); }

Argument& Arguments::add(std::string_view names, std::string value, std::string help) {
  Argument argument;
  argument.names = split_names(names);
  argument.value = std::move(value);
  argument.help = std::move(help);
  argument.group = group_;
  arguments_.push_back(std::move(argument));
  return arguments_.back();
}

Argument& Arguments::flag(std::string_view names, bool& target, std::string help) {
  Argument& argument = add(names, "", std::move(help));
  argument.store = [&target](const std::string&) -> Result<void> {
    target = true;
    return {};
  };
  return argument;
}

Argument& Arguments::text(std::string_view names, std::string value, std::string& target, std::string help) {
  Argument& argument = add(names, std::move(value), std::move(help));
  argument.fallback = target;
  argument.store = [&target](const std::string& text) -> Result<void> {
    target = text;
    return {};
  };
  return argument;
}

Argument& Arguments::text(std::string_view names, std::string value, std::optional<std::string>& target,
                          std::string help) {
  Argument& argument = add(names, std::move(value), std::move(help));
  argument.store = [&target](const std::string& text) -> Result<void> {
    target = text;
    return {};
  };
  return argument;
}

Argument& Arguments::texts(std::string_view names, std::string value, std::vector<std::string>& target,
                           std::string help) {
  Argument& argument = add(names, std::move(value), std::move(help));
  argument.repeatable = true;
  argument.store = [&target](const std::string& text) -> Result<void> {
    target.push_back(text);
    return {};
  };
  return argument;
}

Argument& Arguments::choice(std::string_view names, std::string& target, std::vector<std::string> choices,
                            std::string help) {
  std::string value = fmt::format("{}", fmt::join(choices, "|"));
  Argument& argument = text(names, std::move(value), target, std::move(help));
  argument.choices = std::move(choices);
  return argument;
}

Argument& Arguments::positional(std::string value, std::string& target, std::string help) {
  Argument& argument = text("", std::move(value), target, std::move(help));
  argument.required = true;
  return argument;
}

Argument& Arguments::positional(std::string value, std::optional<std::string>& target, std::string help) {
  return text("", std::move(value), target, std::move(help));
}

Argument& Arguments::positional(std::string value, std::vector<std::string>& target, std::string help) {
  return texts("", std::move(value), target, std::move(help));
}

Argument& Arguments::integers(std::string_view names, std::vector<std::int64_t>& target, std::int64_t low,
                              std::int64_t high, std::string help) {
  Argument& argument = add(names, "LIST", std::move(help));
  argument.fallback = fmt::format("{}", fmt::join(target, ","));
  argument.store = [&target, low, high](const std::string& text) -> Result<void> {
    target.clear();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      TRY(const std::int64_t number, to_integer(std::string_view(text).substr(at, end - at), low, high));
      if (std::find(target.begin(), target.end(), number) == target.end()) target.push_back(number);
      at = end + 1;
    }
    return {};
  };
  return argument;
}

bool Arguments::declared(std::string_view name) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [&](const Argument& argument) {
    return std::find(argument.names.begin(), argument.names.end(), name) != argument.names.end();
  });
}

bool Arguments::given(std::string_view name) const {
  for (const auto& argument : arguments_)
    if (std::find(argument.names.begin(), argument.names.end(), name) != argument.names.end()) return argument.given;
  CHECK(false && "an option of this command");
  return false;
}

}  // namespace knapsack
