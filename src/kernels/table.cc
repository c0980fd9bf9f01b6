// The table of each instruction set: the scalar references, overlaid by what is faster there.
#include "kernels/kernel.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/x86.h"

namespace knapsack {
namespace {

KernelTable scalar_table() {
  KernelTable table;
#define KNAP_OP(id, text, cls, min_in, max_in, out) table[Op::id].run = ref::id;
#include "ops/ops.inc"
#undef KNAP_OP
  table[Op::linear].scratch_bytes = ref::linear_scratch;
  table[Op::head_linear].scratch_bytes = ref::head_linear_scratch;
  table[Op::attention].scratch_bytes = ref::attention_scratch;
  table[Op::router].scratch_bytes = ref::router_scratch;
  table[Op::moe].scratch_bytes = ref::moe_scratch;
  return table;
}

}  // namespace

const KernelTable& KernelTable::get(Isa isa) {
  static const KernelTable scalar = scalar_table();
  static const KernelTable avx2 = [] {
    KernelTable table = scalar_table();
    overlay_avx2(table);
    return table;
  }();
  return isa == Isa::scalar ? scalar : avx2;
}

}  // namespace knapsack
