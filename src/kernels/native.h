// The instruction sets of the architecture this is compiled for, beside scalar: x86/x86.cc lists them, native_absent.cc
// none. Not for callers of ops, which take a KernelTable; the matrix pieces are for benchmarks and tests of them.
#pragma once

#include <span>

#include "kernels/kernel.h"
#include "kernels/matmul.h"
#include "kernels/packed.h"

namespace knapsack {

struct IsaKernels {
  Isa isa = Isa::scalar;
  bool (*runs)() = nullptr;                        // on this CPU
  void (*overlay)(KernelTable& table) = nullptr;   // replaces rows of a table of scalar kernels
  const MatmulTable& (*matmul)() = scalar_matmul;  // what its linear, head_linear and moe are made of
  const PackedTable& (*packed)() = scalar_packed;
};

// Slower before faster, as in isa.inc.
std::span<const IsaKernels> native_isas();

// Of one of supported_isas().
const MatmulTable& matmul_table(Isa isa);
const PackedTable& packed_table(Isa isa);

}  // namespace knapsack
