#include "device/x86/wide512.h"

namespace knapsack {

void avx512vnni_dots(std::int64_t steps) {
  integer_loop<Wide512>(steps, [](__m512i sum, __m512i w, __m512i x) { return _mm512_dpbusd_epi32(sum, w, x); });
}

}  // namespace knapsack
