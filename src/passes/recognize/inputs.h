// What the inputs of an imported decoder are for: token ids, positions, masks, caches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack::recognition {

struct Inputs {
  ValueId ids = -1;
  std::int64_t tokens = 0, past = 0;
  std::vector<ValueId> caches{};                            // of the past
  std::map<ValueId, std::int64_t> axes{};                   // of those: where the tokens run
  std::map<ValueId, std::shared_ptr<const Value>> known{};  // positions and masks
};
// Unsupported: it is no decoder's graph.
Result<Inputs> inputs_of(const Graph& graph);

}  // namespace knapsack::recognition
