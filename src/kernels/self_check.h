// Whether an instruction set gives, on this very CPU, what the definition gives: small products of every kind, compared
// before the first model runs on it. What tests prove, they prove of the sources and on the CPUs that tests run on;
// this is for a CPU (or an emulator of one) that nobody has tried. Not for what each table computes: packed.h,
// matmul.h, ref/.
#pragma once

#include <string>

#include "kernels/kernel.h"
#include "kernels/matmul.h"
#include "kernels/packed.h"

namespace knapsack {

// What differs, in words ("integer products of 4-bit codes with mins, 16 a group"); empty: nothing. Integer products
// must have the scalar ones' bits, products of floats and attention may be rounded otherwise. Takes about a
// millisecond.
std::string first_difference(const PackedTable& packed, const MatmulTable& matmul, const Kernel& attention);

}  // namespace knapsack
