#include "plan/bar.h"

#include <limits>

#include "base/json.h"

namespace knapsack {

Result<PlanBar> read_bar(std::string_view text, const std::string& origin) {
  TRY(const json::object whole, parse_json_object(text, origin));
  PlanBar bar;
  constexpr double most = 1e9;
  for (const auto& [key, value] : whole) {
    const std::string name(key);
    double* target = name == "load_s"                ? &bar.load_s
                     : name == "ttft_s"              ? &bar.ttft_s
                     : name == "decode_tokens_per_s" ? &bar.decode_tokens_per_s
                     : name == "minutes"             ? &bar.minutes
                                                     : nullptr;
    if (target == nullptr && name != "memory_mib")
      return bad_input("{}: expected load_s, ttft_s, decode_tokens_per_s, minutes or memory_mib, found \"{}\"", origin,
                       name);
    TRY(const double number, json_number(whole, key, origin, std::numeric_limits<double>::min(), most));
    if (target != nullptr) {
      *target = number;
    } else {
      bar.memory_mib = number;
    }
  }
  return bar;
}

}  // namespace knapsack
