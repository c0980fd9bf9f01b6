#include "device/x86/vector_loops.h"

namespace knapsack {

const VectorLoops& avx2_loops() { return vector_loops<Wide256>; }

void avx2_read(const std::byte* begin, std::int64_t bytes) {
  __m256i sums[4];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  const auto* at = reinterpret_cast<const __m256i*>(begin);
  const auto* end = reinterpret_cast<const __m256i*>(begin + bytes);
  for (; at + 4 <= end; at += 4)
    for (int i = 0; i < 4; ++i) sums[i] = _mm256_add_epi64(sums[i], _mm256_loadu_si256(at + i));
  for (; at < end; ++at) sums[0] = _mm256_add_epi64(sums[0], _mm256_loadu_si256(at));
  asm volatile("" : : "m"(sums));
}

}  // namespace knapsack
