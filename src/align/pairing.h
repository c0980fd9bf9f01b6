// Which values of two sources are the same one: by name, through the names other programs have for it, through what
// it was taken apart into, and through the order of columns where that differs. Not for comparing them: align.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "align/source.h"

namespace knapsack {

// Our names for a module of transformers' Llama-like decoders, the likeliest first; none where it is unknown.
std::vector<std::string> our_names(std::string_view module);

struct Pair {
  std::size_t a = 0, b = 0;  // numbers of nodes
  // Where RoPE rotates other pairs of columns in A than in B: column j of B may be column order[j] of A. Empty: not so.
  std::vector<std::int32_t> order{};
  int group = -1;  // pairs whose order is decided together, by the first of them
};

struct Pairing {
  std::vector<Pair> pairs;                  // in B's order
  std::vector<std::string> a_only, b_only;  // names
  int groups = 0;
};
// An error: two of one side's values are the same one of the other, or their columns differ.
Result<Pairing> pair_values(const Source& a, const Source& b);

}  // namespace knapsack
