// One primitive op computed on constants, by the scalar kernel: what importers and constant folding ask for.
// Not for running graphs: that is the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace knapsack {

inline constexpr std::int64_t max_evaluated_bytes = std::int64_t{64} << 20;  // of one result

// The op's outputs, of plain types, owned and without names. `inputs` are constants with data. Errors: the op's rule is
// broken (bad_input); a result of more than max_evaluated_bytes, one that depends on how the graph runs, an op of
// ops.inc (unsupported).
Result<std::vector<std::shared_ptr<const Weight>>> evaluate(Op op, const Attrs& attrs,
                                                            std::span<const Value* const> inputs);

}  // namespace knapsack
