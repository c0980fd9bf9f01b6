// The code books of the IQ formats, packed: 16 bits a code word. Two bits an element in words of 8 (iq1, iq2_*), four
// bits an element in words of 4 (iq3_*); the *_levels give what an element's bits stand for.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace knapsack::formats {

extern const std::array<std::uint16_t, 256> iq2_xxs_grid;
extern const std::array<std::uint16_t, 512> iq2_xs_grid;
extern const std::array<std::uint16_t, 1024> iq2_s_grid;
extern const std::array<std::uint16_t, 2048> iq1_grid;
extern const std::array<std::uint16_t, 256> iq3_xxs_grid;
extern const std::array<std::uint16_t, 512> iq3_s_grid;

inline constexpr std::array<float, 4> iq1_levels = {-1, 0, 1, 0};
inline constexpr std::array<float, 4> iq2_levels = {8, 25, 43, 0};
inline constexpr std::array<float, 8> iq3_xxs_levels = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::array<float, 8> iq3_s_levels = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr std::array<std::int8_t, 16> iq4_levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

// Seven sign bits are stored; the eighth makes their number even.
inline unsigned signs_of(unsigned seven) { return seven | static_cast<unsigned>(std::popcount(seven) & 1) << 7; }

}  // namespace knapsack::formats
