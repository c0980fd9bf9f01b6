// attention: paged_attention.h with NEON's vectors.
#include "kernels/arm/kernels_neon.h"
#include "kernels/arm/tile_neon.h"

#include "kernels/paged_attention.h"  // after what it is written over

namespace knapsack::neon {

std::size_t attention_scratch(const OpCall& shape, std::int64_t, int threads) {
  return paged_attention_scratch(shape, threads);
}

void attention(const OpCall& call) { paged_attention<EightLanes>(call); }

}  // namespace knapsack::neon
