// The machine at hand, measured and kept as the device `host`: what `knapsack devices measure` does, and what commands
// do that need it and find nothing kept.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/commands/command.h"
#include "device/devices.h"

namespace knapsack {

struct MeasuredHost {
  Machine machine{};
  json::object profile{};
  std::string kept{};  // the path; empty: there is no folder to keep it in, or it could not be written (warned of)
};

// seconds: for each peak. Shows progress; Ctrl-C stops it.
Result<MeasuredHost> measure_host(Context& context, double seconds);

// `which` of these devices; of the machine at hand, when it was never measured, it is measured now, and that is said.
Result<Device> device_or_measured_host(Context& context, const Devices& devices, const std::string& which);

}  // namespace knapsack
