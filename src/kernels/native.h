// The instruction sets of the architecture this is compiled for, beside scalar: x86/x86.cc lists them, native_absent.cc
// none. Not for callers of ops, which take a KernelTable; the matrix pieces are for benchmarks and tests of them.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

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

// What choose_isa() asks: an instruction set is tried (self_check.h) before it is first used in a process. One that
// gives what it should not is passed over, with a warning, or is an error where it was asked for by name.
class IsaChooser {
 public:
  using Differs = std::function<std::string(Isa)>;  // what differs from the definition, in words; empty: nothing
  // supported: slowest first, from scalar on, which is the definition itself.
  IsaChooser(std::span<const Isa> supported, Differs differs);
  // variable: the value of KNAPSACK_ISA, or null.
  Result<Isa> choose(std::optional<Isa> wanted, const char* variable);

 private:
  const std::string& difference(Isa isa);
  Isa fastest();

  std::span<const Isa> supported_;
  Differs differs_;
  std::mutex mutex_;
  std::map<Isa, std::string> known_;
};

}  // namespace knapsack
