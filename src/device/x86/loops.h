// The loops that mixes.cc lists, each compiled for its own instruction set and called only where the processor has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace knapsack {

using Loop = void (*)(std::int64_t steps);

// Of one width of vectors.
struct VectorLoops {
  Loop fma;                 // fma_chains of them a step
  Loop maddubs, two, four;  // so many maddubs summed in 16 bits, then widened to 32 and added; dot_chains a step
};
inline constexpr int fma_chains = 12;  // independent sums, for 4 or 5 cycles of latency and two instructions a cycle
inline constexpr int dot_chains = 8;
inline constexpr int tile_products = 4;  // a step, each of 16 rows by 64 columns by 16

const VectorLoops& avx2_loops();
const VectorLoops& avx512_loops();
void avxvnni_dots(std::int64_t steps);
void avx512vnni_dots(std::int64_t steps);
void amx_tiles(std::int64_t steps);
void avx2_read(const std::byte* begin, std::int64_t bytes);

}  // namespace knapsack
