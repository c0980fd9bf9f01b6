// The weights of a program's products, repacked for integer products (kernels/packed.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/huge_memory.h"
#include "base/result.h"
#include "kernels/packed.h"
#include "program/kv_cache.h"
#include "program/program.h"

namespace knapsack {

// Bytes of memory; std::bad_alloc where there are not so many.
using MemorySource = std::function<std::shared_ptr<std::byte[]>(std::size_t)>;

// The matrices of a weight that are packed: the weight itself, each expert's, or the rows of each head that a
// head_linear multiplies with.
struct Packable {
  const Weight* weight = nullptr;
  std::int64_t count = 1, rows = 0;    // matrices, [rows, cols] each
  std::int64_t first = 0, stride = 0;  // heads: the first row of the first, and rows from one to the next
  bool operator==(const Packable&) const = default;
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] bool experts() const { return weight->shape.size() == 3; }
  [[nodiscard]] const std::byte* at(std::int64_t matrix) const;
};
// Every weight that a linear, moe or plain head_linear op of the program multiplies with and whose format has levels,
// each once; not those of GPTQ and AWQ checkpoints. A transposed head_linear sums over rows, each of which has scales
// of its own: it stays a product of floats, and reads the weight where it was.
std::vector<Packable> packable(const Program& program);
// What this machine (or the cgroup, or a ulimit) has for packed weights beside the KV cache and 256 MiB for all else.
std::int64_t memory_for_weights(const KvCache& kv);
// Those matrices packed; the mapped file's pages they were read from are let go. The others stay as they are and are
// multiplied as floats. most: bytes that all packed forms may take together; where they would take more, or
// `memory` has not so much, experts are left in the file (PackedWeights::left), of which only those that are chosen are
// read. An error: out of memory, or a table of the user's choices (kernels/choices.h) that cannot be read.
Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, Isa isa, ThreadPool& pool,
                                                    std::int64_t most, const MemorySource& memory = huge_memory);

}  // namespace knapsack
