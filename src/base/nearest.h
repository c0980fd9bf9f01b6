// Which of the names there are a misspelt word most likely meant: options, commands, devices, models, keys of a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace knapsack {

// Letters to insert, drop, change, or swap with the next one.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that was most likely meant; empty when none is near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// For "did you mean": the `count` nearest ones in order, whatever their distance, without regard to case and to what
// is no letter or digit. One that holds the word, or lies in it, is nearer than any other.
std::vector<std::string> nearest_names(std::string_view word, std::span<const std::string> candidates,
                                       std::size_t count = 3);

}  // namespace knapsack
