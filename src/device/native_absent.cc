// Architectures that have no loops of their own.
#include "device/mixes.h"

namespace knapsack {

std::vector<Mix> native_mixes(const Host&) { return {}; }
ReadFn native_reader(const Host&) { return nullptr; }

}  // namespace knapsack
