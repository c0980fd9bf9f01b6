// The NEON kernels, for arm.cc's list. What each computes stands in ops.inc and ref/.
#pragma once

#include "kernels/kernel.h"

namespace knapsack::neon {

void add(const OpCall& call);
void attention(const OpCall& call);
void gated_act(const OpCall& call);
void kv_write(const OpCall& call);
void rms_norm(const OpCall& call);
void rope(const OpCall& call);
void scale(const OpCall& call);

std::size_t attention_scratch(const OpCall& shape, std::int64_t ctx, int threads);

// matmul.h's GateFn.
void gate(std::int64_t act, const float* gate, const float* up, float* out, std::int64_t count);

}  // namespace knapsack::neon
