#include "device/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "base/utf8.h"

namespace knapsack {
namespace {

constexpr std::size_t most_faults = 100;
constexpr std::string_view leave_out = "leave the key out where it is not known";

constexpr std::array<std::pair<std::string_view, FactKind>, 6> kinds{{{"published", FactKind::published},
                                                                      {"derived", FactKind::derived},
                                                                      {"secondary", FactKind::secondary},
                                                                      {"estimate", FactKind::estimate},
                                                                      {"measured", FactKind::measured},
                                                                      {"configuration", FactKind::configuration}}};

// What is no array was said to be none.
bool is_empty(const json::value& value) { return value.is_array() && value.get_array().empty(); }

std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string_view fact_kind_name(FactKind kind) {
  for (const auto& [name, value] : kinds)
    if (value == kind) return name;
  return "unstated";
}

std::string shown(const json::value& value) {
  if (value.is_string()) return "the text " + printable(std::string_view(value.get_string()), 40);
  if (value.is_double()) return fmt::format("{}", value.get_double());
  if (value.is_primitive()) return json::serialize(value);
  return std::string(json_kind(value));
}

bool is_word(std::string_view text, bool dots) {
  bool letter = false;
  for (const char c : text) {
    const bool joins = c == '-' || (dots && c == '.');
    if (joins ? !letter : !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) return false;
    letter = !joins;
  }
  return letter && text.size() <= 100;
}

void Faults::add(std::string path, std::string message) {
  if (faults_.size() < most_faults) faults_.push_back({std::move(path), std::move(message)});
}

std::string FactFields::at(std::string_view key) const {
  // A key of the file's is shown as it is only where it cannot disturb the line.
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
  const std::string name = plain && key.size() <= 60 ? std::string(key) : printable(key, 60);
  return path_.empty() ? name : path_ + "." + name;
}

void FactFields::fault(std::string_view key, std::string message) {
  faults_->add(key.empty() ? path_ : at(key), std::move(message));
}

const json::value* FactFields::find(std::string_view key, bool required, std::string_view expected) {
  asked_.emplace_back(key);
  const json::value* value = object_->if_contains(key);
  if (value == nullptr && required) fault(key, fmt::format("is missing; expected {}", expected));
  return value;
}

std::string FactFields::text(std::string_view key, bool required) {
  constexpr std::string_view expected = "a text";
  const json::value* value = find(key, required, expected);
  if (value == nullptr) return {};
  if (!value->is_string() || value->get_string().empty() || value->get_string().size() > most_letters) {
    fault(key, fmt::format("is {}; expected a text of 1 to {} bytes", shown(*value), most_letters));
    return {};
  }
  return std::string(value->get_string());
}

std::string FactFields::word(std::string_view key, bool required) {
  std::string value = text(key, required);
  if (!value.empty() && !is_word(value)) {
    fault(key, fmt::format("is {}; expected small letters and digits joined by dashes, as snapdragon-8-gen-3",
                           printable(value, 40)));
    value.clear();
  }
  return value;
}

std::string FactFields::one_of(std::string_view key, std::initializer_list<std::string_view> values, bool required) {
  const std::string expected = fmt::format("one of {}", fmt::join(values, ", "));
  const json::value* value = find(key, required, expected);
  if (value == nullptr) return {};
  if (value->is_string()) {
    const std::string_view text = value->get_string();
    if (std::find(values.begin(), values.end(), text) != values.end()) return std::string(text);
  }
  fault(key, fmt::format("is {}; expected {}", shown(*value), expected));
  return {};
}

std::optional<std::int64_t> FactFields::integer(std::string_view key, std::int64_t low, std::int64_t high,
                                                bool required) {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  const json::value* value = find(key, required, expected);
  if (value == nullptr) return std::nullopt;
  const auto number = json_int(*object_, key, "", low, high);
  if (number) return *number;
  fault(key, fmt::format("is {}; expected {}", shown(*value), expected));
  return std::nullopt;
}

std::optional<double> FactFields::positive(std::string_view key, double most, bool required) {
  const json::value* value = find(key, required, "a number");
  return value == nullptr ? std::nullopt : number_of(key, *value, most);
}

std::vector<std::string> FactFields::texts(std::string_view key) {
  const json::value* value = find(key, false, "");
  if (value == nullptr) return {};
  return list_of<std::string>(key, *value, [](const json::value& item) -> std::optional<std::string> {
    if (!item.is_string() || item.get_string().empty() || item.get_string().size() > most_letters) return std::nullopt;
    return std::string(item.get_string());
  });
}

bool FactFields::boolean(std::string_view key) {
  const json::value* value = find(key, false, "");
  if (value == nullptr) return false;
  if (!value->is_bool()) fault(key, fmt::format("is {}; expected true or false", shown(*value)));
  return value->is_bool() && value->get_bool();
}

template <class T, class Read>
std::vector<T> FactFields::list_of(std::string_view key, const json::value& value, Read read) {
  std::vector<T> items;
  const json::array* array = value.if_array();
  if (array == nullptr) {
    fault(key, fmt::format("is {}; expected an array", shown(value)));
    return items;
  }
  if (array->size() > most_items) {
    fault(key, fmt::format("has {} items; at most {} are read", array->size(), most_items));
    return items;
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    if (auto item = read((*array)[i])) {
      items.push_back(std::move(*item));
    } else {
      fault(fmt::format("{}[{}]", key, i), fmt::format("is {}, which is not expected there", shown((*array)[i])));
    }
  }
  return items;
}

std::optional<double> FactFields::number_of(std::string_view key, const json::value& value, double most) {
  if (!value.is_number()) {
    fault(key, fmt::format("is {}; expected a number ({})", shown(value), leave_out));
    return std::nullopt;
  }
  const auto number = value.to_number<double>();
  if (number >= least_number && number <= most) return number;
  const std::string_view wrong = number < 0              ? "is negative"
                                 : number < least_number ? "is nothing to compute with"
                                                         : "is too much";
  fault(key, fmt::format("{} {}; expected {:g} to {:g} ({})", shown(value), wrong, least_number, most, leave_out));
  return std::nullopt;
}

std::optional<std::int64_t> FactFields::count_of(std::string_view key, const json::value& value) {
  const auto number = number_of(key, value, static_cast<double>(most_count));
  if (!number) return std::nullopt;
  if (*number != std::floor(*number)) {
    fault(key, fmt::format("is {}; expected a whole number", shown(value)));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

template <class T>
void FactFields::range(Fact<T>& fact) {
  const json::value* value = find("range", false, "");
  if (value == nullptr) return;
  const json::array* array = value->if_array();
  if (array == nullptr || array->size() != 2) {
    fault("range", fmt::format("is {}; expected [lowest, highest]", shown(*value)));
    return;
  }
  const auto end = [this](std::string_view name, const json::value& of) {
    if constexpr (std::is_same_v<T, double>) {
      return number_of(name, of, most_number);
    } else {
      return count_of(name, of);
    }
  };
  const auto low = end("range[0]", (*array)[0]);
  const auto high = end("range[1]", (*array)[1]);
  if (!low || !high) return;
  if (*low > fact.value || *high < fact.value) {
    fault("range", fmt::format("is [{}, {}], which the value {} does not lie in", *low, *high, fact.value));
    return;
  }
  fact.range = {*low, *high};
}

template <class T, class Read>
std::optional<Fact<T>> FactFields::fact(std::string_view key, std::string_view value_key, bool needs_kind, Read read) {
  const json::value* given = find(key, false, "");
  if (given == nullptr) return std::nullopt;
  if (!given->is_object()) {
    fault(key, fmt::format("is {}; expected an object with {}, {}source: who says so ({})", shown(*given), value_key,
                           needs_kind ? "kind and " : "", leave_out));
    return std::nullopt;
  }
  FactFields fields(*faults_, given->get_object(), at(key));
  Fact<T> fact;
  bool good = false;
  if (const json::value* value = fields.find(value_key, true, "the figure itself")) {
    auto content = read(fields, *value);
    good = content.has_value();
    if (content) fact.value = std::move(*content);
  }
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>) {
    if (good) {
      fields.range(fact);
    } else {
      (void)fields.find("range", false, "");
    }
  }
  if (!std::is_same_v<T, std::string>) {
    const std::string kind = fields.one_of(
        "kind", {"published", "derived", "secondary", "estimate", "measured", "configuration"}, needs_kind);
    for (const auto& [name, value] : kinds)
      if (name == kind) fact.kind = value;
    fact.note = fields.text("note");
  }
  fact.source = fields.text("source", true);
  fields.no_others();
  if (!good) return std::nullopt;
  return fact;
}

std::optional<Number> FactFields::number(std::string_view key, double most) {
  return fact<double>(key, "value", true, [most](FactFields& fields, const json::value& value) {
    return fields.number_of("value", value, most);
  });
}

std::optional<Count> FactFields::count(std::string_view key) {
  return fact<std::int64_t>(
      key, "value", true, [](FactFields& fields, const json::value& value) { return fields.count_of("value", value); });
}

std::optional<Flag> FactFields::flag(std::string_view key) {
  return fact<bool>(key, "value", false, [](FactFields& fields, const json::value& value) -> std::optional<bool> {
    if (value.is_bool()) return value.get_bool();
    fields.fault("value", fmt::format("is {}; expected true or false", shown(value)));
    return std::nullopt;
  });
}

std::optional<Text> FactFields::text_fact(std::string_view key) {
  return fact<std::string>(key, "value", false, [](FactFields& fields, const json::value&) {
    std::string text = fields.text("value");
    return text.empty() ? std::nullopt : std::optional(std::move(text));
  });
}

std::optional<Numbers> FactFields::numbers(std::string_view key) {
  return fact<std::vector<double>>(key, "values", true, [](FactFields& fields, const json::value& value) {
    auto items = fields.list_of<double>("values", value, [](const json::value& item) -> std::optional<double> {
      if (!item.is_number()) return std::nullopt;
      const auto number = item.to_number<double>();
      return number >= least_number && number <= most_number ? std::optional(number) : std::nullopt;
    });
    if (is_empty(value)) fields.fault("values", fmt::format("holds no positive number ({})", leave_out));
    return items.empty() ? std::nullopt : std::optional(std::move(items));
  });
}

std::optional<Counts> FactFields::counts(std::string_view key) {
  return fact<std::vector<std::int64_t>>(key, "values", true, [](FactFields& fields, const json::value& value) {
    auto items =
        fields.list_of<std::int64_t>("values", value, [](const json::value& item) -> std::optional<std::int64_t> {
          if (!item.is_number()) return std::nullopt;
          const auto number = item.to_number<double>();
          const bool good = number > 0 && number <= static_cast<double>(most_count) && number == std::floor(number);
          return good ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
        });
    if (is_empty(value)) fields.fault("values", fmt::format("holds no positive whole number ({})", leave_out));
    return items.empty() ? std::nullopt : std::optional(std::move(items));
  });
}

std::optional<Words> FactFields::words(std::string_view key) {
  return fact<std::vector<std::string>>(key, "values", true, [](FactFields& fields, const json::value& value) {
    auto items =
        fields.list_of<std::string>("values", value, [](const json::value& item) -> std::optional<std::string> {
          if (!item.is_string()) return std::nullopt;
          const std::string_view text = item.get_string();
          const bool good = !text.empty() && text.size() <= 100 && text.front() != '-' && text.front() != '_' &&
                            std::all_of(text.begin(), text.end(), [](char c) {
                              return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
                            });
          return good ? std::optional(std::string(text)) : std::nullopt;
        });
    if (is_empty(value)) fields.fault("values", fmt::format("holds no word in small letters ({})", leave_out));
    return items.empty() ? std::nullopt : std::optional(std::move(items));
  });
}

std::optional<FactFields> FactFields::object(std::string_view key, bool required) {
  const json::value* value = find(key, required, "an object");
  if (value == nullptr) return std::nullopt;
  if (const json::object* inner = value->if_object()) return FactFields(*faults_, *inner, at(key));
  fault(key, fmt::format("is {}; expected an object", shown(*value)));
  return std::nullopt;
}

std::vector<FactFields> FactFields::objects(std::string_view key, bool required) {
  const json::value* value = find(key, required, "an array");
  if (value == nullptr) return {};
  std::size_t i = 0;
  return list_of<FactFields>(key, *value, [&](const json::value& item) -> std::optional<FactFields> {
    const std::string path = fmt::format("{}[{}]", at(key), i++);
    if (const json::object* inner = item.if_object()) return FactFields(*faults_, *inner, path);
    return std::nullopt;
  });
}

std::vector<std::string_view> FactFields::keys() const {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : *object_) keys.emplace_back(key);
  return keys;
}

void FactFields::no_others() {
  for (const auto& [key, value] : *object_) {
    if (std::find(asked_.begin(), asked_.end(), std::string_view(key)) != asked_.end()) continue;
    const std::string near = nearest(key, asked_);
    fault(key, fmt::format("is not known here; {}",
                           near.empty() ? "there may be: " + listed(asked_) : "did you mean " + near + "?"));
  }
}

}  // namespace knapsack
