// The ARM pieces under linear, head_linear and moe, for arm.cc's list.
// Not for what they compute: matmul.h and packed.h define that.
#pragma once

#include "kernels/matmul.h"
#include "kernels/packed.h"

namespace knapsack {

const MatmulTable& neon_matmul();
// Integer products by smull and sadalp, by sdot, by smmla.
const PackedTable& neon_packed();
const PackedTable& dotprod_packed();
const PackedTable& i8mm_packed();

}  // namespace knapsack
