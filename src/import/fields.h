// One JSON object of settings (config.json, quantization_config ...) read field by field, over base/json.h's typed
// look-ups: a field that is missing, of another type, negative or huge is `bad_input`, naming file and field.
// null counts as absent. Borrows the object: it must outlive the reader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace knapsack {

class Fields {
 public:
  // origin: what heads messages: "DIR/config.json", or "DIR/config.json: rope_scaling".
  Fields(const json::object& object, std::string origin) : object_(&object), origin_(std::move(origin)) {}

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] const json::value* find(std::string_view key) const;

  [[nodiscard]] Result<std::int64_t> integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Result<std::int64_t> integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                                std::int64_t otherwise) const;
  [[nodiscard]] Result<double> number(std::string_view key, double low, double high) const;
  [[nodiscard]] Result<double> number_or(std::string_view key, double low, double high, double otherwise) const;
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] Result<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t low, std::int64_t high,
                                                           std::size_t at_most) const;
  [[nodiscard]] Result<std::vector<float>> floats(std::string_view key, std::size_t at_most) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view key, std::size_t at_most) const;
  // A nested object; absent is an error.
  [[nodiscard]] Result<Fields> object(std::string_view key) const;

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const json::object& raw() const { return *object_; }
  // `bad_input` about one field.
  [[nodiscard]] Error wrong(std::string_view key, std::string_view expected) const;

 private:
  const json::object* object_;
  std::string origin_;
};

}  // namespace knapsack
