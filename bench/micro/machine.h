// What this machine can do at most, measured in the same run as what is compared with it.
#pragma once

#include "kernels/kernel.h"

namespace knapsack::bench {

ThreadPool& pool();  // KNAPSACK_THREADS, or every core
Isa isa();           // KNAPSACK_ISA, or the fastest

double peak_gflops();     // fused multiply-adds of float32 on all threads, counted as two
double peak_read_gbps();  // reading 256 MiB from memory on all threads

}  // namespace knapsack::bench
