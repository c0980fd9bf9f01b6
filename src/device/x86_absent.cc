// Where the x86 loops cannot be compiled.
#include "device/mixes.h"

namespace knapsack {

std::vector<Mix> native_mixes(const Host&) { return {}; }
ReadFn native_reader(const Host&) { return nullptr; }

}  // namespace knapsack
