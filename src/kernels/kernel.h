// How an op is called, and the table that says which function computes it on this CPU.
// The scalar functions in ref/ are the definition; x86/ and arm/ overlay the table where they are faster.
// Guarantee every kernel keeps: a row's result does not depend on how many rows are computed together, nor on the
// number of threads (each output element is one fixed sequence of additions). So text is the same for any chunking.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/threads.h"
#include "ops/ops.h"
#include "tensor/weight.h"

namespace knapsack {

// The KV rows of one state: pages of `page_tokens` positions each, page[slot * pages_per_slot + p]. In a page the heads
// follow each other, each with its rows of `head_cols` columns one after the other: attention reads one head at a time,
// and reads it straight on. Of Q8_0 only whole blocks have a place: `col` is a multiple of 32 then, as all runs of
// columns are that are written or read.
struct StateView {
  std::span<std::byte* const> pages;
  std::int64_t pages_per_slot = 0;
  std::int64_t page_tokens = 0;
  std::int64_t cols = 0;
  std::int64_t head_cols = 0;  // divides cols
  DType dtype = DType::F16;    // F16, F32 or Q8_0
  // A page has each column's positions side by side instead, so that a product with keys reads lines of them; F16 and
  // F32 only, and the scalar kernels alone know it.
  bool channel_first = false;
  // Of one element, channel first.
  [[nodiscard]] std::byte* in_channel(std::int64_t slot, std::int64_t position, std::int64_t col) const {
    return pages[static_cast<std::size_t>(slot * pages_per_slot + position / page_tokens)] +
           row_bytes(dtype, col * page_tokens + position % page_tokens);
  }
  // From there to the end of its head, columns lie side by side; the next position's are row_stride() bytes on.
  [[nodiscard]] std::byte* at(std::int64_t slot, std::int64_t position, std::int64_t col = 0) const {
    return pages[static_cast<std::size_t>(slot * pages_per_slot + position / page_tokens)] +
           (col / head_cols * page_tokens + position % page_tokens) * row_stride() + row_bytes(dtype, col % head_cols);
  }
  [[nodiscard]] std::int64_t row_stride() const { return row_bytes(dtype, head_cols); }
};

struct PackedMatrix;  // packed.h

// One operand: an activation [rows, cols] (f32 or i32), a constant, or a state. Exactly one of these is set.
struct Operand {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const Weight* weight = nullptr;
  const PackedMatrix* packed =
      nullptr;        // the weight (experts, heads: an array), for integer products; null: float ones
  bool cold = false;  // the weight lies in a file larger than memory: what is chosen of it is worth fetching ahead
  const StateView* state = nullptr;
  DType dtype = DType::F32;  // of an activation's elements; i32 operands of ops on rows are as wide
  // For primitive ops: dimensions, outermost first, the last two of a weight exchanged where it is transposed.
  std::span<const std::int64_t> dims{};
  bool transposed = false;
  [[nodiscard]] float* f32() const { return reinterpret_cast<float*>(data); }
  [[nodiscard]] std::int32_t* i32() const { return reinterpret_cast<std::int32_t*>(data); }
};

// What the rows of this step are. All spans have one entry a row but `selected`.
struct RowInfo {
  std::span<const std::int32_t> positions{};  // place of the row's token in its sequence
  std::span<const std::int32_t> slots{};      // which sequence
  std::span<const std::int32_t> selected{};   // rows that select_rows keeps
};

struct OpCall {
  std::span<const Operand> in{};
  std::span<const Operand> out{};
  const Attrs* attrs = nullptr;
  const RowInfo* rows = nullptr;
  ThreadPool* pool = nullptr;
  std::span<std::byte> scratch{};  // 64-byte aligned, as large as scratch_bytes() asked for
};

using KernelFn = void (*)(const OpCall&);
// Scratch a kernel needs at most for `rows` rows of this op and `threads` threads. operands' data is not set.
using ScratchFn = std::size_t (*)(const OpCall& shape, std::int64_t ctx, int threads);

// Several calls of an op, on the same first operand, in one go: what run would give for each of them, one by one. Where
// that operand is made by a row-wise op just before, it may come with them: its rows are made as they are needed. Where
// there is one call, an op just after may come with it, too.
struct OpGroup {
  KernelFn before = nullptr;  // null: there is none
  const OpCall* before_call = nullptr;
  std::span<const OpCall> calls{};
  // An add of the only call's result, which nothing else reads, and of something else: the result itself is not
  // written.
  const OpCall* after = nullptr;
  // The operand's row, where it comes with them.
  void make_row(std::int64_t row) const;
};
using GroupFn = void (*)(const OpGroup&);
inline constexpr std::size_t group_calls = 4;  // at most, besides the one before and the one after

struct Kernel {
  KernelFn run = nullptr;
  // Null: none are run together.
  GroupFn run_group = nullptr;
  bool (*joins)(const OpCall& first, const OpCall& next) = nullptr;  // whether next can be in a group that first opens
  bool (*adds)(const OpCall& call, const OpCall& add) = nullptr;     // whether add can be the group's `after`
  ScratchFn scratch_bytes = nullptr;                                 // null: none
  // Rows of its activations in, rows of its result out, each from the same row alone, without scratch: may run before a
  // group.
  bool row_wise = false;
};

enum class Isa : std::uint8_t {
#define KNAP_ISA(id, text) id,
#include "kernels/isa.inc"
#undef KNAP_ISA
};
std::string_view isa_name(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);
std::span<const Isa> supported_isas();  // what this CPU can run, slowest first
// `wanted`, else KNAPSACK_ISA where it is set, else the fastest that computes as it should on this CPU: what is chosen
// has been tried (self_check.h). A usage error unless this CPU can run it, `unsupported` where it computes wrongly.
Result<Isa> choose_isa(std::optional<Isa> wanted = std::nullopt);

class KernelTable {
 public:
  static const KernelTable& get(Isa isa);  // one of supported_isas()
  [[nodiscard]] const Kernel& operator[](Op op) const { return kernels_[static_cast<std::size_t>(op)]; }
  [[nodiscard]] Kernel& operator[](Op op) { return kernels_[static_cast<std::size_t>(op)]; }

 private:
  static constexpr std::size_t count = 0
#define KNAP_OP(id, text, cls, min_in, max_in, out) +1
#define KNAP_PRIMITIVE(id, cls, min_in, max_in, kernel) +1
#include "ops/ops.inc"
#include "ops/primitives.inc"
#undef KNAP_OP
#undef KNAP_PRIMITIVE
      ;
  std::array<Kernel, count> kernels_{};
};

}  // namespace knapsack
