// One op with its operands, run outside a program: in chunks of any size, on any ISA and number of threads.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/random_weight.h"
#include "tensor/half.h"

namespace knapsack::testing {

struct OpInput {
  std::int64_t cols = 0;
  std::vector<float> f32{};         // an activation [rows, cols]
  std::vector<std::int32_t> i32{};  // or one of ids
  std::shared_ptr<const Weight> weight{};
  int state = -1;  // or a state
};

struct OpCase {
  std::string name{};
  Op op{};
  Attrs attrs{};
  std::int64_t rows = 0;
  std::vector<OpInput> in{};
  std::vector<std::int64_t> out_cols{};  // of activation outputs
  std::vector<std::int64_t> states{};    // columns of each state
  DType kv = DType::F32;
  std::vector<std::vector<float>> history{};  // what the states hold before, [ctx, cols] each
  std::int64_t ctx = 0;
  std::vector<std::int32_t> positions{};  // of the rows; empty: 0, 1, 2...
  std::vector<std::int32_t> selected{};   // select_rows only (run whole, never in chunks)
};

inline std::shared_ptr<const Weight> vector_weight(std::vector<float> values) {
  auto data = std::make_shared<const std::vector<float>>(std::move(values));
  auto weight = std::make_shared<Weight>();
  weight->shape = {static_cast<std::int64_t>(data->size())};
  weight->slabs = {reinterpret_cast<const std::byte*>(data->data())};
  weight->owners = {data};
  return weight;
}

inline std::shared_ptr<const Weight> index_weight(std::vector<std::int32_t> values) {
  auto data = std::make_shared<const std::vector<std::int32_t>>(std::move(values));
  auto weight = std::make_shared<Weight>();
  weight->dtype = DType::I32;
  weight->shape = {static_cast<std::int64_t>(data->size())};
  weight->slabs = {reinterpret_cast<const std::byte*>(data->data())};
  weight->owners = {data};
  return weight;
}

// The pages of a case's states: small ones, so that a test crosses them.
class CaseStates {
 public:
  static constexpr std::int64_t page_tokens = 4;

  explicit CaseStates(const OpCase& c) : pages_(c.states.size()), views_(c.states.size()) {
    const std::int64_t count = (c.ctx + page_tokens - 1) / page_tokens;
    const std::int64_t heads = c.attrs.i(Attr::kv_heads, 1);
    for (std::size_t s = 0; s < c.states.size(); ++s) {
      const std::int64_t row = row_bytes(c.kv, c.states[s]);
      bytes_.emplace_back(static_cast<std::size_t>(count * page_tokens * row));
      for (std::int64_t p = 0; p < count; ++p)  // in reverse: nothing may rely on pages being side by side
        pages_[s].push_back(bytes_.back().data() + (count - 1 - p) * page_tokens * row);
      views_[s] = {.pages = pages_[s],
                   .pages_per_slot = count,
                   .page_tokens = page_tokens,
                   .cols = c.states[s],
                   .head_cols = c.states[s] / heads,
                   .dtype = c.kv};
      for (std::int64_t i = 0; s < c.history.size() && i < std::ssize(c.history[s]); i += unit(s))
        put(s, i, c.history[s].data() + i);
    }
  }
  [[nodiscard]] const StateView* view(int s) const { return &views_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] float get(std::size_t s, std::int64_t index) const {
    const std::int64_t first = index / unit(s) * unit(s);
    std::array<float, 32> values{};
    format(views_[s].dtype).decode(place(s, first), values.data(), 1);
    return values[static_cast<std::size_t>(index - first)];
  }

 private:
  [[nodiscard]] std::int64_t unit(std::size_t s) const { return format(views_[s].dtype).block; }
  [[nodiscard]] std::byte* place(std::size_t s, std::int64_t index) const {
    return views_[s].at(0, index / views_[s].cols, index % views_[s].cols);
  }
  void put(std::size_t s, std::int64_t index, const float* values) {
    if (views_[s].dtype == DType::F16) {
      const std::uint16_t half = float_to_half(*values);
      std::memcpy(place(s, index), &half, 2);
    } else if (views_[s].dtype == DType::F32) {
      std::memcpy(place(s, index), values, 4);
    } else {
      format(views_[s].dtype).encode(values, place(s, index), 1);
    }
  }

  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::vector<std::byte*>> pages_;
  std::vector<StateView> views_;
};

// The activation outputs [rows, cols] one after the other (ids as floats), then the contents of every state [ctx,
// cols].
inline std::vector<std::vector<float>> run_case(const OpCase& c, Isa isa = Isa::scalar, int threads = 1,
                                                std::int64_t chunk = 0) {
  if (chunk == 0 || !c.selected.empty()) chunk = c.rows;
  ThreadPool pool(threads);
  const Kernel& kernel = KernelTable::get(isa)[c.op];
  const CaseStates states(c);
  std::vector<std::int32_t> positions = c.positions;
  for (std::int64_t i = 0; positions.size() < static_cast<std::size_t>(c.rows); ++i)
    positions.push_back(static_cast<std::int32_t>(i));
  const std::vector<std::int32_t> slots(static_cast<std::size_t>(c.rows), 0);
  const std::int64_t out_rows = c.selected.empty() ? c.rows : static_cast<std::int64_t>(c.selected.size());

  std::vector<std::vector<float>> results;
  std::vector<std::vector<std::byte>> outputs;
  for (const auto cols : c.out_cols)
    outputs.emplace_back(static_cast<std::size_t>(out_rows * cols) * 4, std::byte{0x7f});
  std::vector<float> scratch;
  for (std::int64_t at = 0; at < c.rows; at += chunk) {
    const std::int64_t n = std::min(chunk, c.rows - at);
    std::vector<Operand> in, out;
    for (const OpInput& i : c.in) {
      Operand operand{.rows = n, .cols = i.cols};
      if (i.weight != nullptr) {
        operand.weight = i.weight.get();
      } else if (i.state >= 0) {
        operand.state = states.view(i.state);
        operand.cols = operand.state->cols;
      } else {
        const void* data =
            i.i32.empty() ? static_cast<const void*>(i.f32.data()) : static_cast<const void*>(i.i32.data());
        operand.data = static_cast<std::byte*>(const_cast<void*>(data)) + at * i.cols * 4;
      }
      in.push_back(operand);
    }
    for (std::size_t o = 0; o < outputs.size(); ++o)
      out.push_back({.data = outputs[o].data() + at * c.out_cols[o] * 4,
                     .rows = c.selected.empty() ? n : out_rows,
                     .cols = c.out_cols[o]});
    if (outputs.empty()) out.push_back({.rows = n, .state = states.view(0)});
    const std::size_t first = static_cast<std::size_t>(at);
    const std::size_t count = static_cast<std::size_t>(n);
    const RowInfo rows{.positions = std::span(positions).subspan(first, count),
                       .slots = std::span(slots).subspan(first, count),
                       .selected = c.selected};
    OpCall call{.in = in, .out = out, .attrs = &c.attrs, .rows = &rows, .pool = &pool};
    if (kernel.scratch_bytes != nullptr) {
      scratch.assign(kernel.scratch_bytes(call, c.ctx, threads) / 4 + 32, std::nanf(""));
      auto* begin = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
      call.scratch = {begin, kernel.scratch_bytes(call, c.ctx, threads)};
    }
    kernel.run(call);
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    auto& values = results.emplace_back();
    for (std::size_t i = 0; i < outputs[o].size(); i += 4)
      values.push_back(c.op == Op::router && o == 0
                           ? static_cast<float>(load_unaligned<std::int32_t>(outputs[o].data() + i))
                           : load_unaligned<float>(outputs[o].data() + i));
  }
  for (std::size_t s = 0; s < c.states.size(); ++s) {
    auto& values = results.emplace_back();
    for (std::int64_t i = 0; i < c.ctx * c.states[s]; ++i) values.push_back(states.get(s, i));
  }
  return results;
}

}  // namespace knapsack::testing
