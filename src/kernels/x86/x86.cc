// The instruction sets of x86, what each needs of the CPU, and what it overlays. Not compiled for any of them itself:
// it runs before the CPU is known.
#include "kernels/x86/x86.h"

#include <cpuid.h>

#include <array>

#include "base/x86_tiles.h"
#include "kernels/native.h"
#include "kernels/ref/ref.h"
#include "kernels/x86/kernels_avx2.h"
#include "kernels/x86/kernels_avx512.h"

namespace knapsack {
namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);  // zeros where there is no such leaf
  return r;
}

// clang 14's __builtin_cpu_supports does not know the names of these two. That the system keeps the registers is asked
// with those which it knows.
bool has_f16c() { return (cpuid(1, 0).c & bit_F16C) != 0; }
bool has_avxvnni() { return cpuid(7, 0).a >= 1 && (cpuid(7, 1).a & bit_AVXVNNI) != 0; }

bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool runs_avxvnni() { return runs_avx2() && has_avxvnni(); }
bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool runs_avx512vnni() { return runs_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool runs_amx() {
  constexpr unsigned both = 3U << 24;  // AMX-TILE and AMX-INT8
  return runs_avx512vnni() && (cpuid(7, 0).d & both) == both && ask_for_tiles();
}

// What wider sets have nothing better for is AVX2's.
template <const MatmulTable& (*matmul)(), const PackedTable& (*packed)(), KernelFn attention = avx2::attention>
void overlay(KernelTable& table) {
  table[Op::linear].run = [](const OpCall& call) { ref::linear(call, matmul(), packed()); };
  table[Op::linear].run_group = [](const OpGroup& group) { ref::linear_group(group, matmul(), packed()); };
  table[Op::head_linear].run = [](const OpCall& call) { ref::head_linear(call, matmul(), packed()); };
  table[Op::moe].run = [](const OpCall& call) { ref::moe(call, matmul(), packed(), avx2::gate); };
  table[Op::attention] = {.run = attention, .scratch_bytes = avx2::attention_scratch};
  table[Op::rms_norm].run = avx2::rms_norm;
  table[Op::rope].run = avx2::rope;
  table[Op::kv_write].run = avx2::kv_write;
  table[Op::gated_act].run = avx2::gated_act;
  table[Op::add].run = avx2::add;
  table[Op::scale].run = avx2::scale;
}

template <const MatmulTable& (*matmul)(), const PackedTable& (*packed)(), KernelFn attention = avx2::attention>
constexpr IsaKernels kernels(Isa isa, bool (*runs)()) {
  return {.isa = isa, .runs = runs, .overlay = overlay<matmul, packed, attention>, .matmul = matmul, .packed = packed};
}

}  // namespace

std::span<const IsaKernels> native_isas() {
  static constexpr std::array list{
      kernels<avx2_matmul, avx2_packed>(Isa::avx2, runs_avx2),
      kernels<avx2_matmul, avxvnni_packed>(Isa::avxvnni, runs_avxvnni),
      kernels<avx512_matmul, avx512_packed, avx512::attention>(Isa::avx512, runs_avx512),
      kernels<avx512_matmul, avx512vnni_packed, avx512::attention>(Isa::avx512vnni, runs_avx512vnni),
      kernels<avx512_matmul, amx_packed, avx512::attention>(Isa::amx, runs_amx),
  };
  return list;
}

}  // namespace knapsack
