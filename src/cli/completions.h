// Completion scripts for shells, written from what the commands declare.
#pragma once

#include <string>

namespace knapsack {

std::string bash_completions();
std::string zsh_completions();
std::string fish_completions();

}  // namespace knapsack
