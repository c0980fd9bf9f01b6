// Whether a node of a primitive graph keeps what a toolchain's table asks of its operator's shapes, constants and
// exported types; not for the types it is compiled to (operator_types.h), nor for what follows where it does not
// (inventory.h).
#pragma once

#include <optional>
#include <string>

#include "device/toolchain.h"
#include "graph/decompose/decompose.h"

namespace knapsack {

// Of types, which operator_types.h decides: it keeps every node.
bool is_type_rule(CheckRule rule);

// What the node has and what is taken: "input 0 has 5 dimensions; at most 4 are taken". Nothing: it is kept.
// `stand_in`: the operator would stand in the place of the node, with the same shapes and constants of its own.
std::optional<std::string> broken(const OpCheck& check, const Graph& graph, const Node& node, bool stand_in = false);

// The check would be kept between two Reshapes that add, drop or join dimensions, and how.
std::optional<std::string> kept_reshaped(const OpCheck& check, const Graph& graph, const Node& node);

// Whether a size of one of its tensors depends on data.
bool is_dynamic(const Graph& graph, const Node& node);

}  // namespace knapsack
