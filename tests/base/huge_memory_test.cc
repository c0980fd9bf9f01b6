#include "base/huge_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

namespace knapsack {
namespace {

TEST(HugeMemory, IsZerosFromOneEndToTheOther) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, (std::size_t{2} << 20) - 1, std::size_t{2} << 20,
                                  (std::size_t{5} << 20) + 12345}) {
    const auto memory = huge_memory(bytes);
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + bytes, [](std::byte b) { return b == std::byte{}; }));
    std::fill_n(memory.get(), bytes, std::byte{7});
    EXPECT_EQ(memory[bytes - 1], std::byte{7});
    if (bytes >= std::size_t{2} << 20) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % (std::size_t{2} << 20), 0U);
    }
  }
}

TEST(HugeMemory, PartsKeepTheWhole) {
  auto whole = huge_memory(std::size_t{3} << 20);
  const std::shared_ptr<std::byte[]> part(whole, whole.get() + (std::size_t{2} << 20));
  whole.reset();
  part[0] = std::byte{1};
  EXPECT_EQ(part[0], std::byte{1});
}

TEST(HugeMemory, WhatCannotBeIsSaid) {
  EXPECT_THROW(huge_memory(0), std::bad_alloc);
  EXPECT_THROW(huge_memory(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_THROW(huge_memory(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
}

}  // namespace
}  // namespace knapsack
