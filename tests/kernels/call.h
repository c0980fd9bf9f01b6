// Runs one op of a kernel table on plain vectors, as the executor would.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/sweep.h"

namespace knapsack::testing {

// What this CPU runs that has a kernel of its own for `op`: neither scalar's nor that of a slower set.
inline std::vector<Isa> fast_isas(Op op) {
  std::vector<Isa> isas;
  std::vector<KernelFn> seen;
  for (const Isa isa : supported_isas()) {
    const KernelFn run = KernelTable::get(isa)[op].run;
    if (std::find(seen.begin(), seen.end(), run) != seen.end()) continue;
    if (isa != Isa::scalar) isas.push_back(isa);
    seen.push_back(run);
  }
  return isas;
}

// A vector weight, F32.
inline Weight vector_weight(const std::vector<float>& values) {
  return {.name = "w",
          .dtype = DType::F32,
          .shape = {static_cast<std::int64_t>(values.size())},
          .slabs = {reinterpret_cast<const std::byte*>(values.data())}};
}

// KV rows in pages that lie apart from each other, as a cache has them.
class State {
 public:
  State(DType dtype, std::int64_t cols, std::int64_t slots, std::int64_t pages_per_slot, std::int64_t heads = 1,
        std::int64_t page_tokens = 64) {
    const auto bytes = static_cast<std::size_t>(page_tokens * row_bytes(dtype, cols));
    for (std::int64_t i = 0; i < slots * pages_per_slot; ++i) {
      memory_.push_back(std::vector<std::byte>(bytes));
      pages_.push_back(memory_.back().data());
    }
    view_ = {.pages = pages_,
             .pages_per_slot = pages_per_slot,
             .page_tokens = page_tokens,
             .cols = cols,
             .head_cols = cols / heads,
             .dtype = dtype};
  }
  [[nodiscard]] const StateView& view() const { return view_; }
  bool operator==(const State& other) const { return memory_ == other.memory_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> pages_;
  StateView view_;
};

struct Rows {
  std::vector<std::int32_t> positions, slots;
};

// inputs: activations by data (rows x cols), weights or states; the output has out_cols columns.
class Call {
 public:
  Call(Op op, std::int64_t rows, const Attrs& attrs) : op_(op), rows_(rows), attrs_(attrs) {}
  Call& activation(const float* data, std::int64_t cols) {
    // The executor's operands are not const; kernels do not write to inputs.
    in_.push_back({.data = reinterpret_cast<std::byte*>(const_cast<float*>(data)), .rows = rows_, .cols = cols});
    return *this;
  }
  Call& weight(const Weight& w, const PackedMatrix* packed = nullptr) {
    in_.push_back({.weight = &w, .packed = packed});
    return *this;
  }
  Call& state(const State& s) {
    in_.push_back({.cols = s.view().cols, .state = &s.view()});
    return *this;
  }
  // Memory for the output and scratch; again() runs the kernel, as often as one likes.
  void prepare(Isa isa, ThreadPool& pool, std::int64_t out_cols, const RowInfo& rows) {
    out_.assign(static_cast<std::size_t>(rows_ * out_cols), NAN);
    result_ = {.data = reinterpret_cast<std::byte*>(out_.data()), .rows = rows_, .cols = out_cols};
    row_info_ = rows;
    kernel_ = KernelTable::get(isa)[op_];
    call_ = {.in = in_, .out = {&result_, 1}, .attrs = &attrs_, .rows = &row_info_, .pool = &pool};
    if (kernel_.scratch_bytes == nullptr) return;
    std::int64_t ctx = 0;
    for (const std::int32_t p : rows.positions) ctx = std::max<std::int64_t>(ctx, p + 1);
    const std::size_t bytes = kernel_.scratch_bytes(call_, ctx, pool.size());
    scratch_.assign(bytes / sizeof(float) + 32, NAN);
    const auto address = (reinterpret_cast<std::uintptr_t>(scratch_.data()) + 63) / 64 * 64;
    call_.scratch = {reinterpret_cast<std::byte*>(address), bytes};
  }
  void again() const { kernel_.run(call_); }
  // Another function in the kernel's place, with its scratch.
  std::vector<float> run_instead(KernelFn function) {
    out_.assign(out_.size(), NAN);
    function(call_);
    return out_;
  }
  std::vector<float> run(Isa isa, ThreadPool& pool, std::int64_t out_cols, const RowInfo& rows = {}) {
    prepare(isa, pool, out_cols, rows);
    again();
    return out_;
  }

 private:
  Op op_;
  std::int64_t rows_;
  Attrs attrs_;
  std::vector<Operand> in_;
  Kernel kernel_;
  Operand result_;
  RowInfo row_info_;
  OpCall call_;
  std::vector<float> out_, scratch_;
};

}  // namespace knapsack::testing
