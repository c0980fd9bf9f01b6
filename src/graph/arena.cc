#include "graph/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace knapsack {
namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// What is alive where a buffer begins; by changes in the order of the ops, since graphs have ten thousands of these.
std::size_t lower_bound_of(std::span<const Buffer> buffers) {
  struct Change {
    int at;
    bool begins;
    std::size_t bytes;
  };
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  for (const Buffer& b : buffers) {
    changes.push_back({.at = b.first, .begins = true, .bytes = aligned(b.bytes)});
    changes.push_back({.at = b.last, .begins = false, .bytes = aligned(b.bytes)});
  }
  // What ends at an op lives there beside what begins.
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at != b.at ? a.at < b.at : a.begins && !b.begins; });
  std::size_t most = 0;
  std::size_t alive = 0;
  for (const Change& change : changes) {
    alive = change.begins ? alive + change.bytes : alive - change.bytes;
    most = std::max(most, alive);
  }
  return most;
}

// Side by side in memory: all of them are looked at for each buffer.
struct Placed {
  std::size_t begin, end;
  int first, last;
};

}  // namespace

ArenaPlan plan_arena(std::span<const Buffer> buffers) {
  ArenaPlan plan{.offsets = std::vector<std::size_t>(buffers.size(), 0), .lower_bound = lower_bound_of(buffers)};
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<Placed> placed;  // by offset
  placed.reserve(buffers.size());
  for (const std::size_t id : order) {
    const Buffer& buffer = buffers[id];
    const std::size_t bytes = aligned(buffer.bytes);
    std::size_t best = std::numeric_limits<std::size_t>::max();
    std::size_t best_gap = best;
    std::size_t free_from = 0;
    for (const Placed& other : placed) {
      if (buffer.first > other.last || other.first > buffer.last) continue;
      if (other.begin >= free_from + bytes && other.begin - free_from < best_gap) {
        best_gap = other.begin - free_from;
        best = free_from;
      }
      free_from = std::max(free_from, other.end);
    }
    if (best == std::numeric_limits<std::size_t>::max()) best = free_from;
    plan.offsets[id] = best;
    plan.bytes = std::max(plan.bytes, best + bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), best,
                                     [](std::size_t offset, const Placed& b) { return offset < b.begin; });
    placed.insert(at, {.begin = best, .end = best + bytes, .first = buffer.first, .last = buffer.last});
  }
  return plan;
}

}  // namespace knapsack
