// What an op makes of its inputs: the shape rule of each row of ops.inc. Used by the builders (where a misfit is our
// own mistake) and by verify() and the text reader (where it is an error).
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

// The output values of `op`, without names. Errors say which rule is broken; the caller adds the node's name.
Result<std::vector<Value>> infer(Op op, const Attrs& attrs, std::span<const Value* const> inputs);

// A constant's dimensions: 1 to 3, in range, rows of whole blocks. Says nothing of its data.
Result<void> check_constant(const Weight& weight);

}  // namespace knapsack
