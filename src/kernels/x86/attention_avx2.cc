// attention: paged_attention.h with AVX2's vectors.
#include "kernels/x86/kernels_avx2.h"
#include "kernels/x86/tile_avx2.h"

#include "kernels/paged_attention.h"  // after what it is written over

namespace knapsack::avx2 {

std::size_t attention_scratch(const OpCall& shape, std::int64_t, int threads) {
  return paged_attention_scratch(shape, threads);
}

void attention(const OpCall& call) { paged_attention<EightLanes>(call); }

}  // namespace knapsack::avx2
