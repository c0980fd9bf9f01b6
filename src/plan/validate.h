// Published measurements beside what the planner says of them: the error of every row, and by unit, framework and
// device. The columns are those of tools/plan/measured.csv (docs/plan.md). Not for fitting: tools/plan/fit.py does
// that.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "device/profile.h"
#include "plan/plan.h"
#include "plan/speed_model.h"

namespace knapsack {

// What the formulas need of a model's shape.
struct RowShape {
  double layers = 0, hidden = 0, attention = 0, vocab = 0, kv = 0;  // kv: elements a token
  bool tied = false;
};
RowShape row_shape(const PlanModel& model);

struct RowSources {
  std::function<const DeviceProfile*(const std::string& name)> device;  // null: there is none
  std::function<std::optional<RowShape>(const std::string& model)> model;
};

struct ValidatedRow {
  std::string id{}, device{}, unit{}, framework{};
  bool fit_ok = false;
  std::optional<double> decode{}, prefill{}, ttft{}, memory{};  // predicted: tokens/s, tokens/s, ms, MiB
  // (predicted - published) / published
  std::optional<double> decode_err{}, prefill_err{}, ttft_err{}, memory_err{};
  std::optional<bool> decode_in_band{};
  bool above_roofline = false;  // faster than the memory of the profile can be
  std::string reason{};         // why an error is missing or of no worth; empty: none is
};

Result<std::vector<ValidatedRow>> validate_rows(std::string_view csv, const std::string& origin,
                                                const Efficiency& efficiency, const RowSources& sources);

std::string validation_text(const std::vector<ValidatedRow>& rows);
json::object validation_json(const std::vector<ValidatedRow>& rows);

}  // namespace knapsack
