// One JSON object of a profile or a toolchain's table, read key by key, every fault collected and none fatal: whoever
// wrote the file learns all of them at once. Caps, so that no figure of a file can overflow what is computed from it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "device/profile.h"

namespace knapsack {

class Faults {
 public:
  void add(std::string path, std::string message);
  [[nodiscard]] std::vector<ProfileFault> take() { return std::move(faults_); }

 private:
  std::vector<ProfileFault> faults_;
};

class FactFields {
 public:
  static constexpr double least_number = 1e-6;
  static constexpr double most_number = 1e9;
  static constexpr std::int64_t most_count = std::int64_t{1} << 50;  // bytes: a petabyte
  static constexpr std::size_t most_items = 4096;                    // of a list
  static constexpr std::size_t most_letters = 4096;                  // of a text

  // path: where the object stands in the file, "memory"; empty at the top.
  FactFields(Faults& faults, const json::object& object, std::string path)
      : faults_(&faults), object_(&object), path_(std::move(path)) {}

  // Plain values; what is missing or wrong is a fault if required, and the value's default either way.
  std::string text(std::string_view key, bool required = false);
  std::string word(std::string_view key, bool required = false);  // "snapdragon-8-gen-3"
  std::string one_of(std::string_view key, std::initializer_list<std::string_view> values, bool required = true);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high, bool required = false);
  std::optional<double> positive(std::string_view key, double most, bool required = false);
  std::vector<std::string> texts(std::string_view key);
  bool boolean(std::string_view key);

  // Facts: objects with value and source.
  std::optional<Number> number(std::string_view key, double most = most_number);
  std::optional<Number> share(std::string_view key) { return number(key, 1); }
  std::optional<Count> count(std::string_view key);
  std::optional<Flag> flag(std::string_view key);
  std::optional<Text> text_fact(std::string_view key);
  std::optional<Numbers> numbers(std::string_view key);
  std::optional<Counts> counts(std::string_view key);
  std::optional<Words> words(std::string_view key);

  // Objects within; none where it is absent, or no object, which is a fault.
  std::optional<FactFields> object(std::string_view key, bool required = false);
  std::vector<FactFields> objects(std::string_view key, bool required = false);
  [[nodiscard]] std::vector<std::string_view> keys() const;

  void fault(std::string_view key, std::string message);
  void allow(std::string_view key) { asked_.emplace_back(key); }  // whatever it holds
  // Every key that nothing above has asked for is a fault; call it last.
  void no_others();
  [[nodiscard]] std::string at(std::string_view key) const;
  [[nodiscard]] const json::object& raw() const { return *object_; }

 private:
  const json::value* find(std::string_view key, bool required, std::string_view expected);
  template <class T, class Read>
  std::optional<Fact<T>> fact(std::string_view key, std::string_view values_key, bool needs_kind, Read read);
  std::optional<double> number_of(std::string_view key, const json::value& value, double most);
  std::optional<std::int64_t> count_of(std::string_view key, const json::value& value);
  template <class T>
  void range(Fact<T>& fact);
  template <class T, class Read>
  std::vector<T> list_of(std::string_view key, const json::value& value, Read read);

  Faults* faults_;
  const json::object* object_;
  std::string path_;
  std::vector<std::string> asked_;
};

// "abc-1-2": small letters and digits, joined by single dashes (and dots, where these may be).
bool is_word(std::string_view text, bool dots = false);

// What to print of an offending value: "-3", "the text \"fast\"", "an object".
std::string shown(const json::value& value);

}  // namespace knapsack
