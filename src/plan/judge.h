// The verdict: a plan's figures beside what is asked, as reasons in order of weight.
#pragma once

#include "plan/plan.h"

namespace knapsack {

// Fills verdict and reasons; adds to `unknown` what could not be judged.
void judge(const PlanModel& model, const DeviceProfile& device, const PlanOptions& options, Plan& plan);

}  // namespace knapsack
