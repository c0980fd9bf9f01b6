// What a command accepts, as data: parse() reads a command line by it, and help, man page, docs/cli.md and shell
// completions are written from it. Not for what the values mean: the command checks that.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace knapsack {

enum class Complete : std::uint8_t { nothing, file, folder, model, command };  // what a shell may offer as the value

struct Argument {
  std::vector<std::string> names;  // "-p", "--prompt"; empty for a positional
  std::string value;               // "TEXT"; empty for a flag
  std::string help;
  std::string fallback;              // the default, for help; empty: none worth showing
  std::vector<std::string> choices;  // the only values allowed; empty: any
  std::string group;
  Complete complete = Complete::nothing;
  bool required = false;
  bool repeatable = false;
  bool given = false;                                     // set by parse()
  std::function<Result<void>(const std::string&)> store;  // its error says what the value should have been

  [[nodiscard]] bool positional() const { return names.empty(); }
  [[nodiscard]] bool flag() const { return value.empty(); }
  // A path may hold any bytes; all else is text, and parse() sees to it that text is UTF-8.
  [[nodiscard]] bool path() const {
    return complete == Complete::file || complete == Complete::folder || complete == Complete::model;
  }
  [[nodiscard]] const std::string& display() const { return names.empty() ? value : names.back(); }
};

// A word of the command line for a message: in double quotes, on one line, not long.
std::string in_quotes(std::string_view word);

// Strict: the whole text, no sign where none fits, no locale; "nan" and "inf" are refused.
Result<std::int64_t> to_integer(std::string_view text, std::int64_t low, std::int64_t high);
Result<double> to_number(std::string_view text, double low, double high);
// "1,2 3": ids separated by commas, spaces or line ends.
Result<std::vector<std::int32_t>> to_ids(std::string_view text);

// All targets are borrowed: they belong to the command and must outlive parse().
class Arguments {
 public:
  struct Example {
    std::string line;
    std::string says;
  };

  void about(std::string text);  // paragraphs after the summary
  void example(std::string line, std::string says);
  void group(std::string title) { group_ = std::move(title); }  // heads the options that follow

  // names: "-p,--prompt".
  Argument& flag(std::string_view names, bool& target, std::string help);
  Argument& text(std::string_view names, std::string value, std::string& target, std::string help);
  Argument& text(std::string_view names, std::string value, std::optional<std::string>& target, std::string help);
  Argument& texts(std::string_view names, std::string value, std::vector<std::string>& target, std::string help);
  Argument& choice(std::string_view names, std::string& target, std::vector<std::string> choices, std::string help);
  // A target that is not optional shows its present value as the default.
  template <class T>
  Argument& integer(std::string_view names, T& target, std::int64_t low, std::int64_t high, std::string help) {
    return scalar(names, "N", target, std::move(help),
                  [low, high](const std::string& text) { return to_integer(text, low, high); });
  }
  // "1,2,8": whole numbers separated by commas, each taken once. The target's present numbers are the default.
  Argument& integers(std::string_view names, std::vector<std::int64_t>& target, std::int64_t low, std::int64_t high,
                     std::string help);
  template <class T>
  Argument& number(std::string_view names, T& target, double low, double high, std::string help) {
    return scalar(names, "X", target, std::move(help),
                  [low, high](const std::string& text) { return to_number(text, low, high); });
  }
  Argument& positional(std::string value, std::string& target, std::string help);                 // required
  Argument& positional(std::string value, std::optional<std::string>& target, std::string help);  // may be absent
  Argument& positional(std::string value, std::vector<std::string>& target, std::string help);    // the rest

  [[nodiscard]] const std::string& about() const { return about_; }
  [[nodiscard]] std::span<const Example> examples() const { return examples_; }
  [[nodiscard]] std::span<const Argument> all() const { return arguments_; }
  [[nodiscard]] std::span<Argument> all() { return arguments_; }
  [[nodiscard]] bool declared(std::string_view name) const;
  [[nodiscard]] bool given(std::string_view name) const;

 private:
  Argument& add(std::string_view names, std::string value, std::string help);

  template <class T, class Parse>
  Argument& scalar(std::string_view names, std::string value, T& target, std::string help, Parse parse) {
    Argument& argument = add(names, std::move(value), std::move(help));
    if constexpr (std::is_arithmetic_v<T>) argument.fallback = fmt::format("{}", target);
    argument.store = [&target, parse](const std::string& text) -> Result<void> {
      TRY(const auto parsed, parse(text));
      if constexpr (std::is_arithmetic_v<T>) {
        target = static_cast<T>(parsed);
      } else {
        target = static_cast<typename T::value_type>(parsed);
      }
      return {};
    };
    return argument;
  }

  std::string about_;
  std::string group_;
  std::vector<Example> examples_;
  std::vector<Argument> arguments_;
};

// Reads the words after the command's name. `--name value`, `--name=value`, `-n value`, `-nvalue`, joined short flags,
// `--` before words that begin with a dash. A later value of a plain option replaces an earlier one.
// Required arguments are not looked for when `help` (a target among the arguments) came out true.
// Errors are usage errors: they name the nearest option there is, and `command`'s help.
Result<void> parse(Arguments& arguments, std::span<const std::string> words, const std::string& command,
                   const bool& help);

}  // namespace knapsack
