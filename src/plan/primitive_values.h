// What the operator inventory asks of the values of a graph in primitive operators (graph/decompose).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace knapsack {

// Constants: their storage format, "Q4_0"; empty: without data, or no constant.
inline std::string stored_format(const Value& value) {
  return value.weight != nullptr && !value.weight->slabs.empty() ? std::string(name(value.weight->dtype))
                                                                 : std::string{};
}

// Constants: as the checkpoint stores them, 0 without data; others: of all elements.
inline std::int64_t value_bytes(const Value& value) {
  if (value.weight != nullptr) return value.weight->slabs.empty() ? 0 : value.weight->bytes();
  return value.elements() * format(value.type()).block_bytes;
}

// Rows of the KV cache from before the step.
inline bool is_cache(const Value& value) { return value.kind == ValueKind::input && value.dims.size() == 4; }

inline bool is_minus_infinity(const Value& value) {
  if (value.weight == nullptr || value.weight->slabs.empty() || value.elements() != 1) return false;
  float number = 0;
  if (format(value.dtype).block != 1) return false;
  format(value.dtype).decode(value.weight->slab(0), &number, 1);
  return std::isinf(number) && number < 0;
}

}  // namespace knapsack
