// The x86 overlay: which ops have faster kernels here, and the matmul pieces under three of them.
// Not for what they compute: ref/ and matmul.h define that.
#pragma once

#include "kernels/kernel.h"
#include "kernels/matmul.h"
#include "kernels/packed.h"

namespace knapsack {

// Replaces rows of a table of scalar kernels. Only for a CPU with AVX2, FMA and F16C (supported_isas()).
void overlay_avx2(KernelTable& table);

const MatmulTable& avx2_matmul();
const PackedTable& avx2_packed();

}  // namespace knapsack
