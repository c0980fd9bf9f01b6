#include "device/x86/wide512.h"

namespace knapsack {

const VectorLoops& avx512_loops() { return vector_loops<Wide512>; }

}  // namespace knapsack
