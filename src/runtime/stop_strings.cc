#include "runtime/stop_strings.h"

#include <algorithm>

namespace knapsack {

bool StopStrings::push(std::string_view text, std::string& out) {
  if (stops_.empty()) {
    out += text;
    return false;
  }
  for (const char c : text) {
    held_.push_back(c);
    std::size_t found = 0;
    for (const auto& stop : stops_)
      if (held_.ends_with(stop)) found = std::max(found, stop.size());
    if (found > 0) {
      out.append(held_, 0, held_.size() - found);
      held_.clear();
      return true;
    }
  }
  // The longest end of held_ that begins a stop string stays.
  std::size_t keep = 0;
  for (const auto& stop : stops_)
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return false;
}

void StopStrings::finish(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace knapsack
