// What the NPU's toolchain means for a plan: which operators of the decode graph leave the NPU, at what price, and
// which types of weights and KV cache it does not take. The inventory behind it: inventory.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/profile.h"
#include "device/toolchain.h"
#include "graph/graph.h"
#include "plan/inventory.h"

namespace knapsack {

struct PlanOperators {
  std::string toolchain{}, at{};  // "qairt-2.39-2.49", "2.45"
  std::int64_t nodes = 0, on_npu = 0, on_cpu = 0, ahead = 0, unknown = 0;
  std::int64_t pieces = 0, tiny_pieces = 0;
  std::vector<std::string> refused{};  // kinds of operators that run on the CPU: "Gather", by number
  Crossing crossings{};                // of a token
  CrossingTime time{};
  std::vector<std::int64_t> weight_bits{};  // 4, 8, 16: those that it multiplies with; empty: not stated
};

// Of one token at the end of a full context. stored: the weights are there, with types of their own.
PlanOperators plan_operators(const Graph& graph, const DeviceProfile& device, const Toolchain& toolchain,
                             std::int64_t ctx, bool stored);

}  // namespace knapsack
