#include "program/pack.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "base/cpus.h"
#include "base/limits.h"
#include "base/mmap.h"
#include "base/numa.h"

namespace knapsack {
namespace {

// Null where there is not so much.
std::shared_ptr<std::byte[]> ask(const MemorySource& memory, std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  try {
    return memory(static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

std::vector<const Weight*> packable(const Program& program) {
  std::vector<const Weight*> found;
  for (const ProgramOp& op : program.ops) {
    if (op.op != Op::linear && op.op != Op::moe) continue;
    for (const int in : op.in) {
      const Slot& slot = program.slots[static_cast<std::size_t>(in)];
      if (slot.kind != SlotKind::weight) continue;
      const Weight* w = program.weights[static_cast<std::size_t>(slot.index)].get();
      // GPTQ and AWQ checkpoints are defined by what float activations give.
      if (w->dtype == DType::G4 || w->dtype == DType::G8 || packed_bytes(*w) == 0) continue;
      if (std::find(found.begin(), found.end(), w) == found.end()) found.push_back(w);
    }
  }
  return found;
}

std::int64_t memory_for_weights(const KvCache& kv) {
  constexpr std::int64_t rest = std::int64_t{256} << 20;
  return static_cast<std::int64_t>(memory_limit()) - static_cast<std::int64_t>(kv.bytes()) - rest;
}

Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, const PackedTable& table, ThreadPool& pool,
                                                    std::int64_t most, const MemorySource& memory) {
  auto packed = std::make_unique<PackedWeights>();
  std::vector<const Weight*> weights = packable(program);
  const auto bytes = [&] {
    return std::accumulate(weights.begin(), weights.end(), std::int64_t{0},
                           [](std::int64_t sum, const Weight* w) { return sum + packed_bytes(*w); });
  };
  const auto leave_experts = [&] {
    const auto experts =
        std::stable_partition(weights.begin(), weights.end(), [](const Weight* w) { return w->shape.size() < 3; });
    std::for_each(experts, weights.end(), [&](const Weight* w) { packed->leave(w); });
    weights.erase(experts, weights.end());
  };
  if (bytes() > most) leave_experts();
  // All in one piece: most matrices are smaller than a huge page or end within one.
  std::shared_ptr<std::byte[]> all = ask(memory, bytes());
  if (all == nullptr && packed->left().empty()) {  // `most` knows nothing of what this process has taken already
    leave_experts();
    all = ask(memory, bytes());
  }
  if (weights.empty()) return packed;
  const auto refused = [&] {
    return out_of_resource("{} MiB for the repacked weights are not to be had; --exact does without them",
                           (bytes() >> 20) + 1);
  };
  if (all == nullptr) return refused();
  try {
    interleave({all.get(), static_cast<std::size_t>(bytes())}, memory_nodes(allowed_cpus()));
    std::byte* next = all.get();
    for (const Weight* w : weights) {
      const std::size_t dimensions = w->shape.size();
      const std::int64_t count = dimensions == 3 ? w->shape[0] : 1;
      const std::int64_t rows = w->shape[dimensions - 2];
      const std::int64_t each = packed_bytes(*w) / count;
      std::vector<PackedMatrix> matrices;
      for (std::int64_t i = 0; i < count; ++i) {
        auto matrix = pack(table, w->dtype, w->slab(i), rows, w->cols(), pool, {all, next + i * each});
        if (matrix == nullptr) break;
        matrices.push_back(std::move(*matrix));
      }
      if (std::ssize(matrices) < count) continue;  // the next one takes its place
      next += count * each;
      packed->add(w, std::move(matrices));
      for (std::int64_t i = 0; i < count; ++i)
        release_pages({w->slab(i), static_cast<std::size_t>(rows * w->row_size())});
    }
  } catch (const std::bad_alloc&) {
    return refused();
  }
  return packed;
}

}  // namespace knapsack
