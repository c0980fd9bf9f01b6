#include <cstddef>
#include <cstring>

#include "device/mixes.h"

namespace knapsack {
namespace {

// Vectors of 16 bytes, which every architecture here has (two or four of them where registers are wider).
using Floats __attribute__((vector_size(16))) = float;
using Words __attribute__((vector_size(16))) = std::uint64_t;

constexpr int chains = 12;  // independent sums: a product's latency times two a cycle, and some to spare

void multiply_add(std::int64_t steps) {
  Floats sums[chains] = {};
  volatile float seed = 0.5F;
  const Floats factor = Floats{} + seed;
  for (std::int64_t step = 0; step < steps; ++step)
    for (Floats& sum : sums) sum = sum * factor + factor;
  asm volatile("" : : "m"(sums));
}

void read_words(const std::byte* begin, std::int64_t bytes) {
  constexpr std::int64_t line = 64;
  Words sums[4] = {};
  for (std::int64_t at = 0; at < bytes; at += line) {
    Words words[4];
    std::memcpy(words, begin + at, sizeof(words));
    for (int i = 0; i < 4; ++i) sums[i] += words[i];
  }
  asm volatile("" : : "m"(sums));
}

}  // namespace

std::vector<Mix> mixes(const Host& host) {
  std::vector<Mix> all = native_mixes(host);
  if (all.empty())
    all.push_back({.name = "multiply + add, 4 wide",
                   .products = Products::fp32,
                   .operations_a_step = 2.0 * 4 * chains,
                   .run = multiply_add});
  return all;
}

ReadFn reader(const Host& host) {
  const ReadFn native = native_reader(host);
  return native != nullptr ? native : read_words;
}

}  // namespace knapsack
