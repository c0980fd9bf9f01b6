// Which of several ways kernels take where the fastest depends on the machine, as data: choices.txt is built in, a file
// of the user's, which `knapsack tune` writes, adds to it. Every choice gives the same bits. Not for what is known when
// a kernel is compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernel.h"
#include "kernels/packed.h"

namespace knapsack {

enum class Choice : std::uint8_t {
#define KNAP_CHOICE(id, text, tokens, ...) id,
#include "kernels/choices.inc"
#undef KNAP_CHOICE
};

struct ChoiceInfo {
  Choice choice;
  std::string_view name;                 // "ahead"
  std::string_view tokens;               // of which products: "one" token or "many"
  std::vector<std::int64_t> candidates;  // what `knapsack tune` tries
  std::int64_t low, high, step;          // what a file may say
  std::int64_t PackedChoice::*value;
};
std::span<const ChoiceInfo> all_choices();

// "4", "4+min", "6/16": bits, mins, columns of a group where they are 16.
std::string codes_name(const PackedKind& kind);

// A line of the table. No `isa`, no `codes`: any.
struct ChoiceLine {
  std::optional<Isa> isa;
  std::string codes;  // codes_name(), or "*"
  Choice choice;
  std::int64_t value;
  [[nodiscard]] std::string text() const;  // "avx2 4+min one ahead 1536"
};

class Choices {
 public:
  static const Choices& built_in();
  // Lines "ISA CODES TOKENS CHOICE VALUE", of which a later one wins; '#' begins a comment. An error names the line.
  static Result<Choices> parse(std::string_view text, const std::string& name);
  static Result<Choices> read(const std::string& path);
  // What is built in and then what the file of the user's says: $KNAPSACK_CHOICES (empty: none), else
  // knapsack/choices in the XDG configuration folder, if it is there.
  static Result<Choices> in_use();

  [[nodiscard]] PackedChoice packed(Isa isa, const PackedKind& kind) const;
  [[nodiscard]] std::span<const ChoiceLine> lines() const { return lines_; }
  // The user's file among them; empty: none.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::vector<ChoiceLine> lines_;
  std::string file_;
};

}  // namespace knapsack
