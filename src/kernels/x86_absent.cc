// In place of x86/ on other architectures, where supported_isas() never lists its ISAs: the table stays scalar.
#include "kernels/x86/x86.h"

namespace knapsack {

void overlay_avx2(KernelTable&) {}

}  // namespace knapsack
