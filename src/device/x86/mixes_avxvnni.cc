#include "device/x86/vector_loops.h"

namespace knapsack {

void avxvnni_dots(std::int64_t steps) {
  integer_loop<Wide256>(steps, [](__m256i sum, __m256i w, __m256i x) { return _mm256_dpbusd_avx_epi32(sum, w, x); });
}

}  // namespace knapsack
