// What this machine can do at most, measured in the same run as what is compared with it (device/peaks.h).
#pragma once

#include "device/peaks.h"
#include "kernels/kernel.h"

namespace knapsack::bench {

ThreadPool& pool();  // KNAPSACK_THREADS, or every core
Isa isa();           // KNAPSACK_ISA, or the fastest

const Peaks& peaks();        // with all threads
double peak_gflops();        // products of float32
double peak_gops(int bits);  // of 8-bit activations by weights of so many bits; of floats where integers are no faster
double peak_read_gbps();     // from memory

}  // namespace knapsack::bench
