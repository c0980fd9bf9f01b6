#include "program/pack.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "base/cpus.h"
#include "base/limits.h"
#include "base/mmap.h"
#include "base/numa.h"
#include "kernels/choices.h"
#include "kernels/native.h"

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

std::int64_t Packable::bytes() const {
  return count *
         PackedMatrix{.kind = *packed_kind(weight->dtype), .rows = rows, .cols = weight->cols(), .data = nullptr}
             .bytes();
}

const std::byte* Packable::at(std::int64_t matrix) const {
  return experts() ? weight->slab(matrix) : weight->slab(0) + (first + matrix * stride) * weight->row_size();
}

std::vector<Packable> packable(const Program& program) {
  std::vector<Packable> found;
  std::vector<const Weight*> refused;  // used in two ways
  for (const ProgramOp& op : program.ops) {
    const bool heads = op.op == Op::head_linear && op.attrs.i(Attr::transposed) == 0;
    if (op.op != Op::linear && op.op != Op::moe && !heads) continue;
    for (const int in : op.in) {
      const Slot& slot = program.slots[static_cast<std::size_t>(in)];
      if (slot.kind != SlotKind::weight) continue;
      const Weight* w = program.weights[static_cast<std::size_t>(slot.index)].get();
      // GPTQ and AWQ checkpoints are defined by what float activations give.
      if (w->dtype == DType::G4 || w->dtype == DType::G8 || packed_bytes(*w) == 0) continue;
      const auto dimensions = w->shape.size();
      Packable one{.weight = w, .count = dimensions == 3 ? w->shape[0] : 1, .rows = w->shape[dimensions - 2]};
      if (heads)
        one = {.weight = w,
               .count = op.attrs.i(Attr::heads),
               .rows = op.attrs.i(Attr::rows),
               .first = op.attrs.i(Attr::row_offset),
               .stride = op.attrs.i(Attr::head_rows)};
      const auto same = std::find_if(found.begin(), found.end(), [&](const Packable& p) { return p.weight == w; });
      if (same == found.end()) {
        found.push_back(one);
      } else if (*same != one) {
        refused.push_back(w);
      }
    }
  }
  std::erase_if(
      found, [&](const Packable& p) { return std::find(refused.begin(), refused.end(), p.weight) != refused.end(); });
  return found;
}

std::int64_t memory_for_weights(const KvCache& kv) {
  constexpr std::int64_t rest = std::int64_t{256} << 20;
  return static_cast<std::int64_t>(memory_limit()) - static_cast<std::int64_t>(kv.bytes()) - rest;
}

Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, Isa isa, ThreadPool& pool,
                                                    std::int64_t most, const MemorySource& memory) {
  TRY(const Choices choices, Choices::in_use());
  const PackedTable& table = packed_table(isa);
  auto packed = std::make_unique<PackedWeights>();
  std::vector<Packable> weights = packable(program);
  const auto bytes = [&] {
    return std::accumulate(weights.begin(), weights.end(), std::int64_t{0},
                           [](std::int64_t sum, const Packable& each) { return sum + each.bytes(); });
  };
  const auto leave_experts = [&] {
    const auto experts =
        std::stable_partition(weights.begin(), weights.end(), [](const Packable& each) { return !each.experts(); });
    std::for_each(experts, weights.end(), [&](const Packable& each) { packed->leave(each.weight); });
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
    for (const Packable& each : weights) {
      const Weight* w = each.weight;
      // Let go at once: an output matrix may be half of a model, and would be there twice. Not where the rows between
      // are read from the file.
      const auto read = [&](std::span<const std::byte> rows) {
        if (each.stride <= each.rows) release_pages(rows);
      };
      const std::int64_t size = each.bytes() / each.count;
      std::vector<PackedMatrix> matrices;
      for (std::int64_t i = 0; i < each.count; ++i) {
        auto matrix = pack(table, w->dtype, each.at(i), each.rows, w->cols(), pool, {all, next + i * size}, read);
        if (matrix == nullptr) break;
        matrix->choice = choices.packed(isa, matrix->kind);
        matrices.push_back(std::move(*matrix));
      }
      if (std::ssize(matrices) < each.count) continue;  // the next one takes its place
      next += each.bytes();
      packed->add(w, std::move(matrices));
    }
  } catch (const std::bad_alloc&) {
    return refused();
  }
  return packed;
}

}  // namespace knapsack
