#include "program/pack.h"

#include <algorithm>
#include <new>

#include "base/mmap.h"

namespace knapsack {

std::vector<const Weight*> packable(const Program& program) {
  std::vector<const Weight*> found;
  for (const ProgramOp& op : program.ops) {
    if (op.op != Op::linear) continue;
    const Slot& slot = program.slots[static_cast<std::size_t>(op.in[1])];
    if (slot.kind != SlotKind::weight) continue;
    const Weight* w = program.weights[static_cast<std::size_t>(slot.index)].get();
    // GPTQ and AWQ checkpoints are defined by what float activations give.
    if (w->dtype == DType::G4 || w->dtype == DType::G8) continue;
    if (w->shape.size() != 2 || w->slabs.size() != 1 || packed_bytes(w->dtype, w->shape[0], w->shape[1]) == 0) continue;
    if (std::find(found.begin(), found.end(), w) == found.end()) found.push_back(w);
  }
  return found;
}

Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, ThreadPool& pool) {
  auto packed = std::make_unique<PackedWeights>();
  for (const Weight* w : packable(program)) {
    try {
      auto matrix = pack(w->dtype, w->slab(0), w->shape[0], w->shape[1], pool);
      if (matrix == nullptr) continue;
      packed->add(w, std::move(matrix));
    } catch (const std::bad_alloc&) {
      return out_of_resource("{}: {} MiB for its repacked form are not to be had", w->name, w->bytes() >> 20);
    }
    release_pages({w->slab(0), static_cast<std::size_t>(w->bytes())});
  }
  return packed;
}

}  // namespace knapsack
