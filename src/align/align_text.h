// An alignment for a person (a table), for scripts (JSON) and as a report (one HTML file). Not for how it is found.
#pragma once

#include <string>

#include "align/align.h"
#include "base/json.h"

namespace knapsack {

// top: rows of nodes, at most.
std::string alignment_text(const Alignment& alignment, std::size_t top);
json::object alignment_json(const Alignment& alignment);
// A file of its own that loads nothing.
std::string alignment_html(const Alignment& alignment);

}  // namespace knapsack
