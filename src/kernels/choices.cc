#include "kernels/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

constexpr std::string_view built_in_text =
#include "kernels/choices_text.inc"
    ;

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr const char* blank = " \t\r";
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const auto from = line.find_first_not_of(blank);
    if (from == std::string_view::npos) return words;
    line.remove_prefix(from);
    words.push_back(line.substr(0, line.find_first_of(blank)));
    line.remove_prefix(words.back().size());
  }
}

std::optional<std::int64_t> number(std::string_view word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

const ChoiceInfo& info(Choice choice) { return all_choices()[static_cast<std::size_t>(choice)]; }

// Of every format that has levels, each once.
std::vector<std::string> all_codes() {
  std::vector<std::string> names{"*"};
  for (const FormatInfo& f : all_formats())
    if (const auto kind = packed_kind(f.dtype)) {
      std::string name = codes_name(*kind);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    }
  return names;
}

template <class Names, class Name>
std::string list_of(const Names& names, const Name& name) {
  std::string list;
  for (const auto& entry : names) list += (list.empty() ? "" : ", ") + std::string(name(entry));
  return list;
}

Result<ChoiceLine> line_of(const std::vector<std::string_view>& words) {
  constexpr std::size_t count = 5;
  if (words.size() != count)
    return bad_input("expected ISA CODES TOKENS CHOICE VALUE, found {} word{}, the first {}", words.size(),
                     words.size() == 1 ? "" : "s", printable(words[0].substr(0, 40)));
  ChoiceLine line{};
  line.isa = isa_from_name(words[0]);
  if (!line.isa && words[0] != "*")
    return bad_input("expected an instruction set that `knapsack version` lists, or *; found {}", printable(words[0]));
  static const std::vector<std::string> codes = all_codes();
  const auto known = std::find(codes.begin(), codes.end(), words[1]);
  if (known == codes.end())
    return bad_input("expected codes {}, found {}", list_of(codes, [](const auto& c) { return c; }),
                     printable(words[1]));
  line.codes = *known;
  const auto infos = all_choices();
  const auto at = std::find_if(infos.begin(), infos.end(),
                               [&](const ChoiceInfo& i) { return i.tokens == words[2] && i.name == words[3]; });
  if (at == infos.end())
    return bad_input("expected one of {}; found {} {}",
                     list_of(infos, [](const ChoiceInfo& i) { return fmt::format("{} {}", i.tokens, i.name); }),
                     printable(words[2]), printable(words[3]));
  line.choice = at->choice;
  const auto value = number(words[4]);
  if (!value || *value < at->low || *value > at->high || *value % at->step != 0)
    return bad_input("{} {}: expected a number from {} to {}{}, found {}", at->tokens, at->name, at->low, at->high,
                     at->step > 1 ? fmt::format(" in steps of {}", at->step) : "", printable(words[4]));
  line.value = *value;
  return line;
}

// Empty: there is no such folder.
std::string configured_file() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (config != nullptr && *config == '/') {
    folder = config;
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".config";
  } else {
    return "";
  }
  const std::filesystem::path file = folder / "knapsack" / "choices";
  std::error_code failed;
  return std::filesystem::exists(file, failed) ? file.string() : "";
}

}  // namespace

std::span<const ChoiceInfo> all_choices() {
  static const std::vector<ChoiceInfo> all{
#define KNAP_CHOICE(id, text, tokens, low, high, step, ...) \
  {Choice::id, text, tokens, {__VA_ARGS__}, low, high, step, &PackedChoice::id},
#include "kernels/choices.inc"
#undef KNAP_CHOICE
  };
  return all;
}

std::string codes_name(const PackedKind& kind) {
  return fmt::format("{}{}{}", kind.bits, kind.min ? "+min" : "", kind.groups == 2 ? "/16" : "");
}

std::string ChoiceLine::text() const {
  const ChoiceInfo& of = info(choice);
  return fmt::format("{} {} {} {} {}", isa ? isa_name(*isa) : "*", codes, of.tokens, of.name, value);
}

Result<Choices> Choices::parse(std::string_view text, const std::string& name) {
  Choices choices;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto words = words_of(line);
    if (words.empty()) continue;
    auto parsed = line_of(words);
    if (!parsed) return bad_input("{}: line {}: {}", name, number, parsed.error().message);
    choices.lines_.push_back(*std::move(parsed));
  }
  return choices;
}

const Choices& Choices::built_in() {
  static const Choices choices = [] {
    auto parsed = parse(built_in_text, "choices.txt");
    CHECK(parsed.has_value());
    return *std::move(parsed);
  }();
  return choices;
}

Result<Choices> Choices::read(const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 20;
  TRY(const std::string text, read_text_file(path, most));
  return parse(text, path);
}

Result<Choices> Choices::in_use() {
  const char* named = std::getenv("KNAPSACK_CHOICES");
  Choices choices = built_in();
  choices.file_ = named != nullptr ? named : configured_file();
  if (choices.file_.empty()) return choices;
  auto own = read(choices.file_);
  if (!own)
    return Error{own.error().code,
                 own.error().message + "; correct it, or go without it by setting KNAPSACK_CHOICES to nothing"};
  choices.lines_.insert(choices.lines_.end(), own->lines_.begin(), own->lines_.end());
  return choices;
}

PackedChoice Choices::packed(Isa isa, const PackedKind& kind) const {
  const std::string codes = codes_name(kind);
  PackedChoice chosen;
  for (const ChoiceLine& line : lines_)
    if ((!line.isa || *line.isa == isa) && (line.codes == "*" || line.codes == codes))
      chosen.*info(line.choice).value = line.value;
  return chosen;
}

}  // namespace knapsack
