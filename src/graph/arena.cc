#include "graph/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace knapsack {
namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool overlap(const Buffer& a, const Buffer& b) { return a.first <= b.last && b.first <= a.last; }

std::size_t lower_bound_of(std::span<const Buffer> buffers) {
  std::size_t most = 0;
  for (const Buffer& at : buffers) {  // the maximum is reached where some buffer begins
    std::size_t alive = 0;
    for (const Buffer& b : buffers)
      if (b.first <= at.first && at.first <= b.last) alive += aligned(b.bytes);
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace

ArenaPlan plan_arena(std::span<const Buffer> buffers) {
  ArenaPlan plan{.offsets = std::vector<std::size_t>(buffers.size(), 0), .lower_bound = lower_bound_of(buffers)};
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t id : order) {
    const std::size_t bytes = aligned(buffers[id].bytes);
    std::size_t best = std::numeric_limits<std::size_t>::max();
    std::size_t best_gap = best;
    std::size_t free_from = 0;
    for (const std::size_t other : placed) {
      if (!overlap(buffers[id], buffers[other])) continue;
      const std::size_t begin = plan.offsets[other];
      if (begin >= free_from + bytes && begin - free_from < best_gap) {
        best_gap = begin - free_from;
        best = free_from;
      }
      free_from = std::max(free_from, begin + aligned(buffers[other].bytes));
    }
    if (best == std::numeric_limits<std::size_t>::max()) best = free_from;
    plan.offsets[id] = best;
    plan.bytes = std::max(plan.bytes, best + bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), best,
                                     [&](std::size_t offset, std::size_t b) { return offset < plan.offsets[b]; });
    placed.insert(at, id);
  }
  return plan;
}

}  // namespace knapsack
