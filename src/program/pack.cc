#include "program/pack.h"

#include <new>

namespace knapsack {

Result<std::unique_ptr<PackedWeights>> pack_weights(const Program& program, ThreadPool& pool) {
  auto packed = std::make_unique<PackedWeights>();
  for (const ProgramOp& op : program.ops) {
    if (op.op != Op::linear) continue;
    const Slot& slot = program.slots[static_cast<std::size_t>(op.in[1])];
    if (slot.kind != SlotKind::weight) continue;
    const Weight& w = *program.weights[static_cast<std::size_t>(slot.index)];
    if (w.shape.size() != 2 || w.slabs.size() != 1 || packed->find(&w) != nullptr) continue;
    try {
      if (auto matrix = pack(w.dtype, w.slab(0), w.shape[0], w.shape[1], pool); matrix != nullptr)
        packed->add(&w, std::move(matrix));
    } catch (const std::bad_alloc&) {
      return out_of_resource("{}: {} MiB for its repacked form are not to be had", w.name, w.bytes() >> 20);
    }
  }
  return packed;
}

}  // namespace knapsack
