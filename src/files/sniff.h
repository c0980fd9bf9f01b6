// What a file that is not what its name says seems to be: for the message, never for a decision.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace knapsack {

// "an HTML page (a download that needed a login?)", "a Git LFS pointer ...", or "" where nothing is recognised.
std::string guess_content(std::span<const std::byte> bytes);

}  // namespace knapsack
