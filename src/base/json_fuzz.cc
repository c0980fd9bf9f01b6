// Any bytes as JSON: what parses must come back the same from its own text, and the typed look-ups must not fall over.
#include "base/json.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"

namespace knapsack {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = parse_json(text, "fuzz.json");
  if (!value) {
    CHECK(!value.error().message.empty());
    return;
  }
  const auto again = parse_json(json::serialize(*value), "again.json");
  CHECK(again.has_value());
  CHECK(json::serialize(*again) == json::serialize(*value));
  if (const auto* object = value->if_object()) {
    for (const auto& [key, field] : *object) {
      (void)json_int_if(*object, key, "fuzz", -5, 5);
      if (const auto number = json_number_if(*object, key, "fuzz", -1e300, 1e300))
        CHECK(!*number || std::isfinite(**number));
      (void)json_bool_if(*object, key, "fuzz");
      (void)json_string_if(*object, key, "fuzz");
      (void)json_object_if(*object, key, "fuzz");
      (void)json_array_if(*object, key, "fuzz");
    }
  }
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
