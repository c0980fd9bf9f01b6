// The instruction sets of x86, what each needs of the CPU, and what it overlays. Not compiled for any of them itself:
// it runs before the CPU is known.
#include "kernels/x86/x86.h"

#include <cpuid.h>

#include <array>

#include "kernels/native.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/kernels_avx2.h"

namespace knapsack {
namespace {

// CPUID leaf 1; clang 14's __builtin_cpu_supports does not know its name.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

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

}  // namespace

std::span<const IsaKernels> native_isas() {
  static constexpr std::array list{
      IsaKernels{
          .isa = Isa::avx2, .runs = runs_avx2, .overlay = overlay_avx2, .matmul = avx2_matmul, .packed = avx2_packed},
  };
  return list;
}

}  // namespace knapsack
