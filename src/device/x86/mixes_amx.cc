#include <immintrin.h>

#include <array>
#include <atomic>

#include "device/x86/loops.h"

namespace knapsack {
namespace {

// All eight tiles at their largest: 16 lines of 64 bytes.
struct alignas(64) LargestTiles {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> line_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> lines{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(LargestTiles) == 64);

}  // namespace

// Four independent sums, tiles 0 to 3, of two times two tiles of factors, as a kernel would keep them.
void amx_tiles(std::int64_t steps) {
  const LargestTiles shapes;
  alignas(64) std::array<std::int8_t, 1024> factors{};
  for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<std::int8_t>(i % 15);
  // gcc's tile instructions do not say that they read memory: what was written before them is written now.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _tile_loadconfig(&shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, factors.data(), 64);
  _tile_loadd(5, factors.data(), 64);
  _tile_loadd(6, factors.data(), 64);
  _tile_loadd(7, factors.data(), 64);
  for (std::int64_t step = 0; step < steps; ++step) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  alignas(64) std::array<std::int32_t, 256> sums;
  _tile_stored(0, sums.data(), 64);
  _tile_release();
  asm volatile("" : : "m"(sums));
}

}  // namespace knapsack
