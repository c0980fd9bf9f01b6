#include "report/table.h"

#include <algorithm>

#include "base/check.h"
#include "report/terminal.h"

namespace knapsack {

void Table::row(std::vector<std::string> cells) {
  CHECK(cells.size() == columns_.size());
  for (auto& cell : cells) cell = one_line(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string made = indent;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string pad(widths[c] - display_width(cell), ' ');
      if (c > 0) made += "  ";
      made += columns_[c].align == Align::right ? pad + cell : cell + pad;
    }
    made.erase(made.find_last_not_of(' ') + 1);
    out += made + "\n";
  };
  line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) line([&](std::size_t c) -> const std::string& { return row[c]; });
  return out;
}

}  // namespace knapsack
