// Several matrices on one input, or vectors, as one: their rows one below the other.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tensor/weight.h"

namespace knapsack {

// parts: of one storage format and, if matrices, of one number of columns, in order. Without a copy where they lie one
// behind the other; data = false, or one without data: a shape alone.
std::shared_ptr<const Weight> join_rows(std::string name, std::span<const Weight* const> parts, bool data = true);

}  // namespace knapsack
