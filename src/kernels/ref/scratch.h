// Cuts a scratch area into arrays. The same cutting, run without memory, tells how much is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "base/check.h"

namespace knapsack {

class Scratch {
 public:
  Scratch() = default;  // measures only
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}

  // `count` elements, 64-byte aligned, uninitialised; null when measuring.
  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    if (memory_.empty()) return nullptr;
    CHECK(used_ <= memory_.size());
    return std::launder(reinterpret_cast<T*>(memory_.data() + at));
  }
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::span<std::byte> rest() const { return memory_.subspan(used_); }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

}  // namespace knapsack
