#include "import/fields.h"

namespace knapsack {
namespace {

std::string shown(const json::value* value) {
  if (value == nullptr) return "nothing";
  std::string text = json::serialize(*value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

const json::value* Fields::find(std::string_view key) const {
  const json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Error Fields::wrong(std::string_view key, std::string_view expected) const {
  return bad_input("{}: '{}' must be {}, found {}", origin_, key, expected, shown(object_->if_contains(key)));
}

Result<std::int64_t> Fields::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  return json_int(*object_, key, origin_, low, high);
}

Result<std::int64_t> Fields::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                        std::int64_t otherwise) const {
  if (!has(key)) return otherwise;
  return integer(key, low, high);
}

Result<double> Fields::number(std::string_view key, double low, double high) const {
  return json_number(*object_, key, origin_, low, high);
}

Result<double> Fields::number_or(std::string_view key, double low, double high, double otherwise) const {
  if (!has(key)) return otherwise;
  return number(key, low, high);
}

Result<bool> Fields::boolean_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  return json_bool(*object_, key, origin_);
}

Result<std::string> Fields::text(std::string_view key) const { return json_string(*object_, key, origin_); }

Result<std::string> Fields::text_or(std::string_view key, std::string_view otherwise) const {
  if (!has(key)) return std::string(otherwise);
  return text(key);
}

Result<std::vector<std::int64_t>> Fields::integers(std::string_view key, std::int64_t low, std::int64_t high,
                                                   std::size_t at_most) const {
  const auto range = fmt::format("a list of at most {} integers from {} to {}", at_most, low, high);
  const json::value* value = find(key);
  if (value == nullptr || !value->is_array() || value->get_array().size() > at_most) return wrong(key, range);
  std::vector<std::int64_t> out;
  for (const json::value& element : value->get_array()) {
    if (!element.is_int64() || element.get_int64() < low || element.get_int64() > high) return wrong(key, range);
    out.push_back(element.get_int64());
  }
  return out;
}

Result<std::vector<float>> Fields::floats(std::string_view key, std::size_t at_most) const {
  const auto range = fmt::format("a list of at most {} positive numbers", at_most);
  const json::value* value = find(key);
  if (value == nullptr || !value->is_array() || value->get_array().size() > at_most) return wrong(key, range);
  std::vector<float> out;
  for (const json::value& element : value->get_array()) {
    if (!element.is_number()) return wrong(key, range);
    const auto number = element.to_number<double>();
    if (!(number > 0 && number < 1e9)) return wrong(key, range);
    out.push_back(static_cast<float>(number));
  }
  return out;
}

Result<std::vector<std::string>> Fields::texts(std::string_view key, std::size_t at_most) const {
  const auto range = fmt::format("a list of at most {} strings", at_most);
  const json::value* value = find(key);
  if (value == nullptr || !value->is_array() || value->get_array().size() > at_most) return wrong(key, range);
  std::vector<std::string> out;
  for (const json::value& element : value->get_array()) {
    if (!element.is_string()) return wrong(key, range);
    out.emplace_back(element.get_string());
  }
  return out;
}

Result<Fields> Fields::object(std::string_view key) const {
  TRY(const json::object* const inner, json_object(*object_, key, origin_));
  return Fields(*inner, fmt::format("{}: {}", origin_, key));
}

}  // namespace knapsack
