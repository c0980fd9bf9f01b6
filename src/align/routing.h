// Which experts two sides choose, token by token: where the choice differs, by how much the scores would have had to
// differ for that, and the weights of the one in the order of the other. Not for running them: align.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace knapsack {

using Experts = std::span<const std::int32_t>;

struct Disagreement {
  std::vector<std::int32_t> a, b;  // experts that one side alone chose; empty: the same ones, in whatever order
  // How far apart A's scores of those are: what B's must be off by, at least, to choose so. Below 0: not known.
  double margin = -1;
};
// scores: A's, of every expert; empty: not known.
Disagreement disagreement(Experts a, Experts b, std::span<const float> scores);

// B's weights in the order of A's choice; for experts that A alone chose those of B's others, in their order.
std::vector<float> in_order_of(Experts a, Experts b, std::span<const float> weights);

// The weights of both as those of all experts that either chose: 0 where a side did not.
struct Dense {
  std::vector<float> a, b;
};
Dense dense(Experts a, std::span<const float> a_weights, Experts b, std::span<const float> b_weights);

}  // namespace knapsack
