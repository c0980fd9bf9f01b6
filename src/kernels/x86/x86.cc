// The list of what AVX2 overlays. Not compiled for AVX2 itself: it runs before the CPU is known.
#include "kernels/x86/x86.h"

#include "kernels/ref/ref.h"
#include "kernels/x86/kernels_avx2.h"

namespace knapsack {

void overlay_avx2(KernelTable& table) {
  table[Op::linear].run = [](const OpCall& call) { ref::linear(call, avx2_matmul(), avx2_packed()); };
  table[Op::head_linear].run = [](const OpCall& call) { ref::head_linear(call, avx2_matmul()); };
  table[Op::moe].run = [](const OpCall& call) { ref::moe(call, avx2_matmul(), avx2::gate); };
  table[Op::attention] = {.run = avx2::attention, .scratch_bytes = avx2::attention_scratch};
  table[Op::rms_norm].run = avx2::rms_norm;
  table[Op::rope].run = avx2::rope;
  table[Op::kv_write].run = avx2::kv_write;
  table[Op::gated_act].run = avx2::gated_act;
  table[Op::add].run = avx2::add;
  table[Op::scale].run = avx2::scale;
}

}  // namespace knapsack
