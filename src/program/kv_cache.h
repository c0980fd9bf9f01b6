// The KV cache: for each state of a program, `slots` sequences of `ctx` rows, in pages, allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/kernel.h"
#include "program/program.h"

namespace knapsack {

class KvCache {
 public:
  static constexpr std::int64_t page_tokens = 64;

  // dtype: F16, F32 or Q8_0; the last is `unsupported` where columns come in runs that are no multiples of 32. The
  // memory is reserved at once and touched as it is written. More than the machine (or the cgroup) has is an
  // out_of_resource error that says how much and what to reduce.
  static Result<KvCache> create(std::span<const StateInfo> states, std::int64_t slots, std::int64_t ctx, DType dtype);

  [[nodiscard]] const StateView& state(int index) const { return views_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::int64_t ctx() const { return ctx_; }
  [[nodiscard]] std::int64_t slots() const { return slots_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* p) const;
  };
  std::int64_t ctx_ = 0;
  std::int64_t slots_ = 0;
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte, Unmap> memory_{nullptr, Unmap{0}};
  std::vector<std::vector<std::byte*>> pages_;  // by state
  std::vector<StateView> views_;
};

}  // namespace knapsack
