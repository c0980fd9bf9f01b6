// The weights of a program's products, repacked for integer products (kernels/packed.h).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/packed.h"
#include "program/kv_cache.h"
#include "program/program.h"

namespace knapsack {

// Every weight that a linear or moe op of the program multiplies with and whose format has levels, each once; not those
// of GPTQ and AWQ checkpoints.
std::vector<const Weight*> packable(const Program& program);
// What this machine (or the cgroup) has for packed weights beside the KV cache and 256 MiB for all else.
std::int64_t memory_for_weights(const KvCache& kv);
// Those matrices packed; the mapped file's pages they were read from are let go. The others stay as they are and are
// multiplied as floats. most: bytes that all packed forms may take together; where they would take more, experts are
// left in the file (PackedWeights::left), of which only those that are chosen are read. A failure is out of memory.
Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, const PackedTable& table, ThreadPool& pool,
                                                    std::int64_t most);

}  // namespace knapsack
