// A model as the planner sees it, made of what the importer found. Not for reading files: import/ does that.
#pragma once

#include "base/result.h"
#include "import/import.h"
#include "plan/plan.h"

namespace knapsack {

// chunk: prefill rows a step; the arena is that of a prefill and a decode program of this graph.
Result<PlanModel> plan_model(const Imported& imported, const std::string& name, std::int64_t chunk = 128);

}  // namespace knapsack
