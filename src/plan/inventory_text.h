// An inventory as text for people and as JSON for programs. Not for deciding anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "plan/inventory.h"

namespace knapsack {

// title: "prefill, 512 tokens".
std::string inventory_text(const std::string& title, const Graph& graph, const Inventory& inventory);
// With every node and its tensors; layer: of those of one layer, and of none, only.
json::object inventory_json(const Graph& graph, const Inventory& inventory, std::optional<std::int64_t> layer = {});

}  // namespace knapsack
