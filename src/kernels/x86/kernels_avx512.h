// The AVX-512 kernels beside the products, for x86.cc's list.
#pragma once

#include "kernels/kernel.h"

namespace knapsack::avx512 {

void attention(const OpCall& call);  // scratch as avx2's

}  // namespace knapsack::avx512
