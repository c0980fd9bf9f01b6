// One model in one scheme on one unit of a device: the four walls in figures. Not for judging them: plan.cc does.
#pragma once

#include "plan/plan.h"

namespace knapsack {

// All of a Plan but verdict, reasons and changes. The options' values have been checked.
Plan estimate(const PlanModel& model, const DeviceProfile& device, const Efficiency& efficiency,
              const PlanOptions& options, const std::string& quant, UnitKind unit);

inline constexpr double mib = 1 << 20;

// What the device leaves for a model; nothing: its memory is not known. gib: of the device at hand, if that was said.
std::optional<double> budget_mib(const DeviceProfile& device, const PlanOptions& options, UnitKind unit);

// The part of the memory that is left beside the system and that a unit may take, as far as the profile says.
double usable_share(const DeviceProfile& device, UnitKind unit);

double bits_of_kv(std::string_view kv);
// "1.5 GiB", "112 MiB": as reasons and changes say it.
std::string size_text(double mebibytes);

struct WeightTotals {
  double bytes = 0;       // all
  double read_bytes = 0;  // for a token: without the input table of an untied model, of experts those it takes
  double active = 0;      // elements that multiply, for a token, without the head
  double read = 0;        // elements read for a token
};
WeightTotals weigh(const PlanModel& model, const std::string& quant);

// Bytes of the KV cache that hold so many tokens, and that a token at this depth reads (windows read no further).
double kv_bytes(const PlanModel& model, double bits, std::int64_t tokens);
double kv_bytes_read(const PlanModel& model, double bits, std::int64_t depth);

}  // namespace knapsack
