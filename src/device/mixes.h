// Loops of nothing but one mix of instructions, on registers: what a kernel made of that mix could reach at most. And
// the fastest way to read memory. One file an architecture; portable.cc is what any compiler makes of plain vectors.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "device/host.h"

namespace knapsack {

enum class Products : std::uint8_t { fp32, int8 };

struct Mix {
  std::string_view name;  // "maddubs + madd + add"
  Products products = Products::fp32;
  // int8: weights of at most this many bits beside 8-bit activations never overflow in it.
  int weight_bits = 0;
  double operations_a_step = 0;               // a product and its addition are two
  void (*run)(std::int64_t steps) = nullptr;  // the result goes nowhere
};

// What runs on this machine: of this architecture, or else the portable ones.
std::vector<Mix> mixes(const Host& host);
// Reads [begin, begin + bytes), both multiples of 64.
using ReadFn = void (*)(const std::byte* begin, std::int64_t bytes);
ReadFn reader(const Host& host);

// Of this architecture alone: none, and null, where there is nothing better than the portable.
std::vector<Mix> native_mixes(const Host& host);
ReadFn native_reader(const Host& host);

}  // namespace knapsack
