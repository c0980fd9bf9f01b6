// A plan as text for people and as JSON for programs. Not for deciding anything.
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "plan/plan.h"

namespace knapsack {

std::string plan_text(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options,
                      const Plan& plan);
json::object plan_json(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options,
                       const Plan& plan);

// One line a plan. column: what tells them apart ("quant", "ctx", "device"), and its value in each.
struct PlanRow {
  std::string label;
  Plan plan;
};
std::string plan_table(const std::string& column, std::span<const PlanRow> rows);

}  // namespace knapsack
