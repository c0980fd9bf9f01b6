// add, scale, gated_act, rms_norm and rope: small_ops.h with AVX2's vectors, for wider sets, too: these ops wait for
// memory.
#include "kernels/x86/avx2.h"
#include "kernels/x86/kernels_avx2.h"

#include "kernels/small_ops.h"  // after what it is written over

namespace knapsack::avx2 {

void add(const OpCall& call) { small::add(call); }
void gated_act(const OpCall& call) { small::gated_act(call); }
void rms_norm(const OpCall& call) { small::rms_norm(call); }
void rope(const OpCall& call) { small::rope(call); }
void scale(const OpCall& call) { small::scale(call); }
void gate(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count) {
  small::gate(act, gate, up, out, count);
}

}  // namespace knapsack::avx2
