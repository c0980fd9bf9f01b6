// The most memory that this process held at once, as the system counts it.
#pragma once

namespace knapsack {

// MiB: resident pages, those of mapped files among them.
double peak_memory_mib();
// From here on counted anew, where the system can (Linux); else what was before stays in it.
void forget_peak_memory();

}  // namespace knapsack
