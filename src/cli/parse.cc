// parse() through CLI11, which is included nowhere else: it takes long to compile.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "cli/arguments.h"

namespace knapsack {
namespace {

// CLI11 would take "[a,b]" for two values, let "--stop=" swallow the next word, read "--json=true" as the flag, "-5",
// "---x" and "-!" as positionals, and the rest of "-q-json" as an option. A NUL, which no word of a command line can
// hold, keeps it from each of these; plain() takes it out again.
std::string guarded(const std::string& word) {
  constexpr char nul = '\0';
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (word.size() < 2 || word[0] != '-') return word.ends_with(']') ? word + nul : word;
  if (word == "--") return word;
  if (word[1] == '-' && letter(word[2])) return word.find('=') == std::string::npos ? word : word + nul;
  std::string result;
  for (const char c : word) {
    if (!result.empty() && !letter(c)) result += nul;
    result += c;
  }
  return result;
}

std::string plain(std::string word) {
  std::erase(word, '\0');
  return word;
}

class Reader {
 public:
  Reader(Arguments& arguments, const std::string& command) : arguments_(arguments), command_(command) {}

  Result<void> read(std::span<const std::string> words) {
    std::vector<std::string> reversed(words.size());  // as CLI11 wants them
    std::transform(words.rbegin(), words.rend(), reversed.begin(), guarded);
    CLI::App app;
    app.set_help_flag();
    Result<void> stored;
    for (auto& argument : arguments_.all()) add(app, argument, stored);
    try {
      app.parse(std::move(reversed));
    } catch (const CLI::ArgumentMismatch&) {  // only where the words end before an option's value
      const std::string& last = words.back();
      const Argument* argument = find(last.starts_with("--") ? last : std::string{'-', last.back()});
      CHECK(argument != nullptr);
      return usage_error("{} needs a value ({}); {}", argument->display(), argument->value, hint());
    } catch (const CLI::ExtrasError&) {
      return surplus(app.remaining());
    } catch (const CLI::ConversionError&) {  // a callback's `false`
      CHECK(!stored);
    }
    return stored;
  }

  [[nodiscard]] std::string hint() const { return fmt::format("see `{} --help`", command_); }

 private:
  void add(CLI::App& app, Argument& argument, Result<void>& stored) {
    const std::string names =
        argument.positional() ? argument.value : fmt::format("{}", fmt::join(argument.names, ","));
    CLI::Option* option = app.add_option(names, [this, &argument, &stored](const std::vector<std::string>& values) {
      return std::all_of(values.begin(), values.end(), [&](const std::string& value) {
        stored = store(argument, value);
        return stored.has_value();
      });
    });
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->trigger_on_parse();  // each value as it comes
    if (argument.flag()) option->expected(0);
    if (argument.positional() && argument.repeatable) option->expected(-1);
  }

  Argument* find(std::string_view name) {
    for (auto& argument : arguments_.all())
      if (std::find(argument.names.begin(), argument.names.end(), name) != argument.names.end()) return &argument;
    return nullptr;
  }

  Result<void> store(Argument& argument, const std::string& word) {
    const std::string value = plain(word);
    if (argument.flag() && word != "true") return usage_error("{} takes no value; {}", argument.display(), hint());
    if (!argument.choices.empty() &&
        std::find(argument.choices.begin(), argument.choices.end(), value) == argument.choices.end()) {
      const std::string near = nearest(value, argument.choices);
      return usage_error("{}: expected one of {}, found {}; {}{}", argument.display(),
                         fmt::join(argument.choices, ", "), in_quotes(value),
                         near.empty() ? "" : fmt::format("did you mean {}? ", near), hint());
    }
    if (argument.path() && value.empty())
      return usage_error("{}: expected a file name, found an empty one; {}", argument.display(), hint());
    if (!argument.path() && !is_valid_utf8(value))
      return usage_error("{}: expected text in UTF-8, found something else at byte {}; {}", argument.display(),
                         valid_utf8_prefix(value), hint());
    if (auto done = argument.store(value); !done)
      return usage_error("{}: {}; {}", argument.display(), done.error().message, hint());
    argument.given = true;
    return {};
  }

  // What llama.cpp calls an option that is here, too.
  static std::string elsewhere(const std::string& name, const std::vector<std::string>& names) {
    constexpr std::array<std::pair<const char*, const char*>, 8> called{{{"--repeat-last-n", "--penalty-window"},
                                                                         {"--n-predict", "--max-tokens"},
                                                                         {"--predict", "--max-tokens"},
                                                                         {"--ctx-size", "--ctx"},
                                                                         {"--cache-type-k", "--kv"},
                                                                         {"--cache-type-v", "--kv"},
                                                                         {"-ctk", "--kv"},
                                                                         {"--n-prompt", "--prompt"}}};
    for (const auto& [theirs, ours] : called)
      if (name == theirs && std::find(names.begin(), names.end(), ours) != names.end()) return ours;
    return "";
  }

  // What CLI11 could not place: options, and words after the last positional; "--" stands where it stood.
  Error surplus(const std::vector<std::string>& words) {
    const bool options = words[0] != "--";
    const std::string word = plain(words[options ? 0 : 1]);
    if (!options || word.size() < 2 || word[0] != '-')
      return usage_error("unexpected argument {}; {}", in_quotes(word), hint());
    const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word;
    const auto is_model = [](const Argument& argument) { return argument.positional() && argument.value == "MODEL"; };
    if ((name == "-m" || name == "--model") && std::any_of(arguments_.all().begin(), arguments_.all().end(), is_model))
      return usage_error("unknown option {}; the model stands without one: `{} MODEL`; {}", in_quotes(name), command_,
                         hint());
    std::vector<std::string> names;
    for (const auto& argument : arguments_.all())
      names.insert(names.end(), argument.names.begin(), argument.names.end());
    std::string near = nearest(name, names);
    if (near.empty()) near = elsewhere(name, names);
    return usage_error("unknown option {}; {}{}", in_quotes(name), near.empty() ? "" : "did you mean " + near + "? ",
                       hint());
  }

  Arguments& arguments_;
  const std::string& command_;
};

}  // namespace

Result<void> parse(Arguments& arguments, std::span<const std::string> words, const std::string& command,
                   const bool& help) {
  Reader reader(arguments, command);
  TRY_VOID(reader.read(words));
  if (help) return {};
  for (const auto& argument : arguments.all()) {
    if (argument.required && !argument.given)
      return usage_error("{} is missing: {}; {}", argument.display(), argument.help, reader.hint());
  }
  return {};
}

}  // namespace knapsack
