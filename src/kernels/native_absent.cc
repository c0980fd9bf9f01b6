// In place of x86/ or arm/ on architectures without kernels of their own: the table stays scalar.
#include "kernels/native.h"

namespace knapsack {

std::span<const IsaKernels> native_isas() { return {}; }

}  // namespace knapsack
