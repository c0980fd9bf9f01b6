// The executable form of a graph: a flat list of ops over one planned arena, its weights and its states.
// Shapes are static: built for at most max_tokens rows a step; a step may use fewer. Prefill and decode are two
// programs over the same weights and the same KV cache. Immutable once built; run by Executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/ops.h"
#include "tensor/weight.h"

namespace knapsack {

// How many rows an activation has: those of the step, those whose logits are wanted, or always the same.
enum class Rows : std::uint8_t { tokens, selected, fixed };

enum class SlotKind : std::uint8_t { activation, weight, state };

struct Slot {
  std::string name{};  // the graph's value name, e.g. "layers.3.attn.q_proj"
  SlotKind kind = SlotKind::activation;
  Rows rows = Rows::tokens;
  DType dtype = DType::F32;          // activations: of one element a block
  std::vector<std::int64_t> dims{};  // as the graph has them; the first one below 0: rows of the step
  std::int64_t cols = 0;             // the last dimension
  bool transposed = false;           // a weight whose last two dimensions are exchanged
  std::size_t offset = 0;            // activations: bytes from the arena's start, 64-byte aligned
  int index = -1;                    // weight or state number
  // Of all its rows, of an activation whose rows are always the same.
  [[nodiscard]] std::int64_t fixed_rows() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i + 1 < dims.size(); ++i) n *= dims[i];
    return n;
  }
};

struct ProgramOp {
  Op op{};
  std::string name{};
  Attrs attrs{};
  std::vector<int> in{};  // slots
  std::vector<int> out{};
};

struct StateInfo {
  std::string name;  // "layers.3.kv.k"
  std::int64_t cols = 0;
  std::int64_t heads = 1;  // kv heads that share the columns evenly
  std::int64_t run = 1;    // columns are written and read in runs that begin at multiples of this
  bool channel_first = false;
};

struct Program {
  std::int64_t max_tokens = 0;
  std::int64_t max_selected = 0;
  std::vector<Slot> slots;
  std::vector<ProgramOp> ops;
  std::vector<std::shared_ptr<const Weight>> weights;
  std::vector<StateInfo> states;
  std::vector<int> inputs;     // slots, in the order of the graph
  std::vector<int> outputs;    // slots
  int ids = -1;                // a decoder: slot of the token ids, I32 [tokens, 1]; else -1
  int logits = -1;             // slot of the first output; a decoder: F32 [selected, vocab]
  std::int64_t fixed_ctx = 0;  // static shapes: the context that the cache must have, 0: there are none
  std::size_t arena_bytes = 0;
  std::size_t arena_lower_bound = 0;  // the most bytes alive at one op
};

}  // namespace knapsack
