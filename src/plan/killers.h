// What is known to kill a graph on an NPU, each with its fix: what exporters write that no toolchain takes well, and
// types that the NPU's generation or the toolchain lacks.
#pragma once

#include <vector>

#include "plan/inventory.h"
#include "plan/operator_types.h"

namespace knapsack {

// inventory: with every decision and piece.
std::vector<Killer> find_killers(const Graph& graph, const DeviceProfile& device, const Toolchain* toolchain,
                                 const OperatorTypes& types, const Inventory& inventory);

}  // namespace knapsack
