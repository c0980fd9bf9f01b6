// What there is for x86, by what the processor has. Not compiled for any of it itself.
#include "device/mixes.h"

#include "base/x86_tiles.h"
#include "device/x86/loops.h"

namespace knapsack {
namespace {

Mix int8(std::string_view name, int bits, double operations, Loop run) {
  return {.name = name, .products = Products::int8, .weight_bits = bits, .operations_a_step = operations, .run = run};
}

// Magnitudes: a pair of 6-bit by 8-bit products is at most 2 * 63 * 127, twice that fits 16 bits; of 5-bit ones four
// times. (maddubs takes the codes unsigned; 8-bit weights are made so by their sign on the activation, one pair.)
constexpr int one_pair = 8;
constexpr int two_pairs = 6;
constexpr int four_pairs = 5;

constexpr double dots(int bytes) { return 2.0 * bytes * dot_chains; }
constexpr double fmas(int bytes) { return 2.0 * bytes / 4 * fma_chains; }

// What the files are compiled for.
bool runs_avx2(const Host& host) { return host.has("avx2") && host.has("fma") && host.has("f16c"); }
bool runs_avx512(const Host& host) {
  return runs_avx2(host) && host.has("avx512f") && host.has("avx512bw") && host.has("avx512dq") && host.has("avx512vl");
}

}  // namespace

std::vector<Mix> native_mixes(const Host& host) {
  std::vector<Mix> all;
  if (runs_avx2(host)) {
    const VectorLoops& loops = avx2_loops();
    all.push_back({.name = "fma, 256 bits", .operations_a_step = fmas(32), .run = loops.fma});
    all.push_back(int8("maddubs + madd + add, 256 bits", one_pair, dots(32), loops.maddubs));
    all.push_back(int8("2 maddubs added in int16, madd + add, 256 bits", two_pairs, 2 * dots(32), loops.two));
    all.push_back(int8("4 maddubs added in int16, madd + add, 256 bits", four_pairs, 4 * dots(32), loops.four));
  }
  if (runs_avx2(host) && host.has("avx_vnni")) all.push_back(int8("vpdpbusd, 256 bits", 8, dots(32), avxvnni_dots));
  if (runs_avx512(host)) {
    const VectorLoops& loops = avx512_loops();
    all.push_back({.name = "fma, 512 bits", .operations_a_step = fmas(64), .run = loops.fma});
    all.push_back(int8("maddubs + madd + add, 512 bits", one_pair, dots(64), loops.maddubs));
    all.push_back(int8("2 maddubs added in int16, madd + add, 512 bits", two_pairs, 2 * dots(64), loops.two));
    all.push_back(int8("4 maddubs added in int16, madd + add, 512 bits", four_pairs, 4 * dots(64), loops.four));
    if (host.has("avx512_vnni")) all.push_back(int8("vpdpbusd, 512 bits", 8, dots(64), avx512vnni_dots));
    if (host.has("amx_int8") && ask_for_tiles())
      all.push_back(int8("tdpbssd, tiles", 8, 2.0 * 16 * 64 * 16 * tile_products, amx_tiles));
  }
  return all;
}

ReadFn native_reader(const Host& host) { return runs_avx2(host) ? avx2_read : nullptr; }

}  // namespace knapsack
