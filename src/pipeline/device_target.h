// What the passes may count on of a device, out of its profile and its toolchain's table: the one place that knows both
// the passes and what a plan makes of a table (src/plan). Not for what a device is asked for beyond that: layouts that
// no table speaks of are the caller's wish.
#pragma once

#include "device/profile.h"
#include "device/toolchain.h"
#include "passes/pass.h"

namespace knapsack {

// toolchain: null where there is no table, and then nothing is taken apart and nothing is placed. An op of ours is
// taken as one where the table has an operator that is it (RMSNormalization, RotaryEmbedding, GroupQueryAttention ...)
// without a condition; a fused one where the table has its product and says so of each part; a primitive as
// take_inventory decides. Copies what it is given.
Target device_target(const DeviceProfile& device, const Toolchain* toolchain);

}  // namespace knapsack
