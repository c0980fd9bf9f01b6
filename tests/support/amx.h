// AMX's tiles for a CPU without them, in plain C++, as the manual describes the instructions: what shapes a product may
// have is checked as the processor checks it. Included by the compiler before all else, as simde.h is.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

struct EmulatedTiles {
  struct Shape {
    int lines = 0, bytes = 0;
  };
  bool configured = false;
  std::array<Shape, 8> shapes{};
  std::array<std::array<std::array<std::int8_t, 64>, 16>, 8> tiles{};

  // What the processor would refuse.
  static void demand(bool allowed) {
    if (!allowed) std::abort();
  }
  [[nodiscard]] Shape shape(int tile) const {
    const Shape s = shapes[static_cast<std::size_t>(tile)];
    demand(configured && s.lines > 0 && s.bytes > 0);
    return s;
  }
  std::int8_t* at(int tile, int row) {
    return tiles[static_cast<std::size_t>(tile)][static_cast<std::size_t>(row)].data();
  }
};
inline EmulatedTiles& emulated_tiles() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

inline void emulated_loadconfig(const void* memory) {
  std::array<std::uint8_t, 64> bytes;
  std::memcpy(bytes.data(), memory, bytes.size());
  EmulatedTiles& all = emulated_tiles();
  all = {};
  EmulatedTiles::demand(bytes[0] == 1);
  for (std::size_t i = 1; i < 16; ++i) EmulatedTiles::demand(bytes[i] == 0);
  for (std::size_t i = 0; i < 16; ++i) {
    const int line = bytes[16 + 2 * i] + 256 * bytes[17 + 2 * i];
    const int lines = bytes[48 + i];
    EmulatedTiles::demand(line <= 64 && lines <= 16 && (line == 0) == (lines == 0) && (i < 8 || lines == 0));
    if (i < 8) all.shapes[i] = {.lines = lines, .bytes = line};
  }
  all.configured = true;
}
inline void emulated_release() { emulated_tiles() = {}; }
inline void emulated_zero(int tile) {
  EmulatedTiles& all = emulated_tiles();
  EmulatedTiles::demand(all.shape(tile).lines > 0);
  all.tiles[static_cast<std::size_t>(tile)] = {};
}
inline void emulated_loadd(int tile, const void* base, std::int64_t stride) {
  EmulatedTiles& all = emulated_tiles();
  const auto shape = all.shape(tile);
  all.tiles[static_cast<std::size_t>(tile)] = {};
  for (int row = 0; row < shape.lines; ++row)
    std::memcpy(all.at(tile, row), static_cast<const char*>(base) + row * stride,
                static_cast<std::size_t>(shape.bytes));
}
inline void emulated_stored(int tile, void* base, std::int64_t stride) {
  EmulatedTiles& all = emulated_tiles();
  const auto shape = all.shape(tile);
  for (int row = 0; row < shape.lines; ++row)
    std::memcpy(static_cast<char*>(base) + row * stride, all.at(tile, row), static_cast<std::size_t>(shape.bytes));
}
// sums[m][n] += the four signed products of a[m][4k..] and b[k][4n..], for each k.
inline void emulated_dpbssd(int sums, int a, int b) {
  EmulatedTiles& all = emulated_tiles();
  const auto c = all.shape(sums);
  EmulatedTiles::demand(sums != a && sums != b && a != b && all.shape(a).lines == c.lines &&
                        all.shape(b).bytes == c.bytes && all.shape(a).bytes == 4 * all.shape(b).lines);
  for (int m = 0; m < c.lines; ++m)
    for (int n = 0; n < c.bytes / 4; ++n) {
      std::int32_t sum = 0;
      std::memcpy(&sum, all.at(sums, m) + 4 * n, sizeof(sum));
      for (int k = 0; k < all.shape(b).lines; ++k)
        for (int i = 0; i < 4; ++i) sum += all.at(a, m)[4 * k + i] * all.at(b, k)[4 * n + i];
      std::memcpy(all.at(sums, m) + 4 * n, &sum, sizeof(sum));
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#define _tile_loadconfig emulated_loadconfig
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_loadd
#define _tile_stored emulated_stored
#define _tile_dpbssd emulated_dpbssd
