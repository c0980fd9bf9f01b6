// Where integer products (packed.h) keep their activations: a scratch area cut for them, and row by row.
#pragma once

#include "kernels/packed.h"
#include "kernels/ref/scratch.h"

namespace knapsack::ref {

inline PackedInput take_rounded(Scratch& scratch, const PackedMatrix& w, std::int64_t tokens) {
  const std::int64_t blocks = w.cols / packed_block;
  return {.q = scratch.take<std::int8_t>(tokens * w.cols),
          .d = scratch.take<float>(tokens * blocks),
          .side = scratch.take<float>(tokens * blocks * w.kind.groups),
          .base = w.kind.bits == 8 ? scratch.take<std::int32_t>(tokens * blocks * w.kind.groups) : nullptr};
}

// Whether the same rounded activations serve both.
inline bool same_input(const PackedMatrix& a, const PackedMatrix& b) {
  return a.cols == b.cols && a.kind.groups == b.kind.groups && a.kind.side_factor() == b.kind.side_factor() &&
         (a.kind.bits == 8) == (b.kind.bits == 8);
}

// The part from `row` on.
inline PackedInput from_row(const PackedInput& x, const PackedMatrix& w, std::int64_t row) {
  const std::int64_t blocks = row * (w.cols / packed_block);
  return {.q = x.q + row * w.cols,
          .d = x.d + blocks,
          .side = x.side + blocks * w.kind.groups,
          .base = x.base != nullptr ? x.base + blocks * w.kind.groups : nullptr};
}

}  // namespace knapsack::ref
