#include "program/kv_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/limits.h"

namespace knapsack {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

Error too_large(double wanted_mib, std::int64_t slots, std::int64_t ctx, DType dtype) {
  const std::string sequences = slots == 1 ? "" : fmt::format(" for each of {} sequences", slots);
  return out_of_resource(
      "the KV cache of {} tokens{} in {} needs {:.0f} MiB, more memory than there is; use a smaller --ctx{}", ctx,
      sequences, name(dtype), wanted_mib,
      dtype == DType::F32   ? " or --kv f16"
      : dtype == DType::F16 ? " or --kv q8_0"
                            : "");
}

}  // namespace

void KvCache::Unmap::operator()(std::byte* p) const { munmap(p, bytes); }

Result<KvCache> KvCache::create(std::span<const StateInfo> states, std::int64_t slots, std::int64_t ctx, DType dtype) {
  CHECK(slots > 0 && ctx > 0 && (dtype == DType::F16 || dtype == DType::F32 || dtype == DType::Q8_0));
  for (const StateInfo& state : states) {
    CHECK(state.heads > 0 && state.cols % state.heads == 0);
    if (state.channel_first && dtype == DType::Q8_0)
      return unsupported("'{}' is kept channel first, and {} has blocks of columns; use --kv f16", state.name,
                         name(dtype));
    const std::int64_t run = std::gcd(state.run, state.cols / state.heads);
    if (run % format(dtype).block != 0)
      return unsupported(
          "this model's KV cache has heads or parts of {} columns, and {} is made for {} at a time; use "
          "--kv f16",
          run, name(dtype), format(dtype).block);
  }
  KvCache cache;
  cache.ctx_ = ctx;
  cache.slots_ = slots;
  const std::int64_t pages_per_slot = (ctx - 1) / page_tokens + 1;

  double wanted = 0;  // a double does not wrap
  for (const StateInfo& state : states)
    wanted += static_cast<double>(slots) * static_cast<double>(pages_per_slot) * page_tokens *
              static_cast<double>(row_bytes(dtype, state.cols));
  const double wanted_mib = wanted / static_cast<double>(mib);
  if (wanted > static_cast<double>(memory_limit())) return too_large(wanted_mib, slots, ctx, dtype);
  // From here on every product fits: each is at most `wanted`, which is no more than this machine's memory.
  for (const StateInfo& state : states)
    cache.bytes_ += static_cast<std::size_t>(slots * pages_per_slot * page_tokens * row_bytes(dtype, state.cols));
  if (cache.bytes_ == 0) return cache;

  void* memory = mmap(nullptr, cache.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return too_large(wanted_mib, slots, ctx, dtype);
  cache.memory_ = {static_cast<std::byte*>(memory), Unmap{cache.bytes_}};

  std::byte* next = cache.memory_.get();
  const auto pages = static_cast<std::size_t>(slots * pages_per_slot);
  for (const StateInfo& state : states) {
    const std::int64_t page_bytes = page_tokens * row_bytes(dtype, state.cols);
    auto& list = cache.pages_.emplace_back(pages);
    for (auto& page : list) {
      page = next;
      next += page_bytes;
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i)
    cache.views_.push_back({.pages = cache.pages_[i],
                            .pages_per_slot = pages_per_slot,
                            .page_tokens = page_tokens,
                            .cols = states[i].cols,
                            .head_cols = states[i].cols / states[i].heads,
                            .dtype = dtype,
                            .channel_first = states[i].channel_first});
  return cache;
}

}  // namespace knapsack
