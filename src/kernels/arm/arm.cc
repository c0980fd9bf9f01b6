// The instruction sets of 64-bit ARM, what each needs of the CPU, and what it overlays. NEON belongs to the
// architecture; the other two bring integer products and take the rest from it. Not compiled for any of them itself: it
// runs before the CPU is known.
#include "kernels/arm/arm.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <array>

#include "kernels/arm/kernels_neon.h"
#include "kernels/native.h"
#include "kernels/ref/ref.h"

namespace knapsack {
namespace {

bool runs_neon() { return true; }
bool runs_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool runs_i8mm() { return runs_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

template <const PackedTable& (*packed)()>
void overlay(KernelTable& table) {
  table[Op::linear].run = [](const OpCall& call) { ref::linear(call, neon_matmul(), packed()); };
  table[Op::linear].run_group = [](const OpGroup& group) { ref::linear_group(group, neon_matmul(), packed()); };
  table[Op::head_linear].run = [](const OpCall& call) { ref::head_linear(call, neon_matmul(), packed()); };
  table[Op::moe].run = [](const OpCall& call) { ref::moe(call, neon_matmul(), packed(), neon::gate); };
  table[Op::attention] = {.run = neon::attention, .scratch_bytes = neon::attention_scratch};
  table[Op::rms_norm].run = neon::rms_norm;
  table[Op::rope].run = neon::rope;
  table[Op::kv_write].run = neon::kv_write;
  table[Op::gated_act].run = neon::gated_act;
  table[Op::add].run = neon::add;
  table[Op::scale].run = neon::scale;
}

template <const PackedTable& (*packed)()>
constexpr IsaKernels with_products(Isa isa, bool (*runs)()) {
  return {.isa = isa, .runs = runs, .overlay = overlay<packed>, .matmul = neon_matmul, .packed = packed};
}

}  // namespace

std::span<const IsaKernels> native_isas() {
  static constexpr std::array list{
      with_products<neon_packed>(Isa::neon, runs_neon),
      with_products<dotprod_packed>(Isa::dotprod, runs_dotprod),
      with_products<i8mm_packed>(Isa::i8mm, runs_i8mm),
  };
  return list;
}

}  // namespace knapsack
