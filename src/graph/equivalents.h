// Operators in the place of one that a target lacks, which compute the same up to rounding: the rows of
// equivalents.inc. Not for choosing among them: who knows what the target takes does.
#pragma once

#include <string_view>

#include "graph/rewrite.h"

namespace knapsack {

// Writes the node of the old graph by the row of its operator that has `by`, into the new one. False, and nothing is
// written, where there is no such row or it does not fit this node: numbers that are no floats, a power that is no
// square.
bool write_equivalent(Rewriter& to, const Node& node, std::string_view by);

}  // namespace knapsack
