// What is asked of a plan, as JSON: load_s, ttft_s, decode_tokens_per_s, minutes, memory_mib; what is not named keeps
// its default.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/plan.h"

namespace knapsack {

// An unknown name, or what is no number above 0, is an error that names origin.
Result<PlanBar> read_bar(std::string_view text, const std::string& origin);

}  // namespace knapsack
