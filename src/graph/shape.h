// What an op makes of its inputs: the shape rule of each row of ops.inc. Used by the builders (where a misfit is our
// own mistake) and by verify() and the text reader (where it is an error).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

// The output values of `op`, without names. Errors say which rule is broken; the caller adds the node's name.
Result<std::vector<Value>> infer(Op op, const Attrs& attrs, std::span<const Value* const> inputs);

inline constexpr std::size_t max_rank = 8;

// Dimensions in range, with a product that is; the first of two may be symbolic.
Result<void> check_dims(std::span<const std::int64_t> dims);

// "[T, 64]".
std::string dims_text(std::span<const std::int64_t> dims);

// A weight's dimensions; transposed: the last two exchanged.
std::vector<std::int64_t> seen_dims(const Weight& weight, bool transposed);

// A constant's dimensions: in range, rows of whole blocks. Says nothing of its data.
Result<void> check_constant(const Weight& weight);

}  // namespace knapsack
