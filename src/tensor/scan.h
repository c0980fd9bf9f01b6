// Looks through a tensor's encoded bytes for values that are not finite, quickly: for block formats it reads only the
// scales, and decodes a block where one is suspect. For `inspect --check`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/dtype.h"

namespace knapsack {

struct Fault {
  std::int64_t index = 0;  // first element that is NaN or infinite
  std::int64_t count = 0;  // how many are
  float value = 0;         // the first one
};

// data: whole blocks. Empty: every element is finite. Integer types always are.
std::optional<Fault> scan(DType dtype, std::span<const std::byte> data);

}  // namespace knapsack
