#include "plan/bar.h"

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
    bar.asks_load = bar.asks_load || name == "load_s";
    bar.asks_ttft = bar.asks_ttft || name == "ttft_s";
    bar.asks_minutes = bar.asks_minutes || name == "minutes";
    if (target == nullptr && name != "memory_mib")
      return bad_input("{}: expected load_s, ttft_s, decode_tokens_per_s, minutes or memory_mib, found \"{}\"", origin,
                       name);
    TRY(const double number, json_number(whole, key, origin, 1e-9, most));
    if (target != nullptr) {
      *target = number;
    } else {
      bar.memory_mib = number;
    }
  }
  return bar;
}

}  // namespace knapsack
