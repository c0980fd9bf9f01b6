// A table of text for a terminal: columns as wide as they need, numbers to the right. Not for machines: they get JSON.
#pragma once

#include <string>
#include <vector>

namespace knapsack {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell a column; what could drive a terminal in it is made printable.
  void row(std::vector<std::string> cells);
  [[nodiscard]] std::string text(const std::string& indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace knapsack
