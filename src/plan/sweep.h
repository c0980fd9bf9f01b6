// Plans side by side: what is varied, and charts of what comes out. Not for one plan: plan_text.h.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/plan.h"
#include "plan/plan_text.h"
#include "report/plot.h"

namespace knapsack {

struct Sweep {
  std::string what{};                 // "ctx", "prompt", "quant", "kv", "device"
  std::vector<std::string> values{};  // as they were written; numbers in full
};
// "ctx=1k..32k" (doubling), "ctx=1024,4096", "device=rk3588,rk3576". A usage error says what was expected.
Result<Sweep> read_sweep(std::string_view text);
// "4096", "4k", "1M" (of 1024); nothing: no such thing.
std::optional<std::int64_t> tokens_from(std::string_view text);

// Decode over what was varied, with its band.
Plot sweep_plot(const std::string& title, const Sweep& sweep, std::span<const PlanRow> rows, const PlanBar& bar);
std::string sweep_bars(const Sweep& sweep, std::span<const PlanRow> rows);

// Operations a second over operations a byte: the memory's slope, the unit's peak, and where prefill and decode sit.
// Empty series where the profile lacks the bandwidth.
Plot roofline(const std::string& title, const PlanOptions& options, const Plan& plan);

}  // namespace knapsack
