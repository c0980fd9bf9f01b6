// The values of an imported decoder that no token decides: computed, with every token visible and positions behind
// those of the past. What a mask or a table of angles was written in does not matter then, only what it says.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "graph/rewrite.h"
#include "passes/recognize/form.h"

namespace knapsack::recognition {

inline constexpr std::int64_t large_bytes = std::int64_t{1} << 20;  // a constant of the file that is not computed with
inline constexpr std::int64_t side_bytes = std::int64_t{64} << 20;  // what follows: a mask of 4,096 tokens

// Its numbers, as doubles; empty where there is no data, or too much.
std::vector<double> numbers_of(const Value& side);
// All the same number: that.
std::optional<double> scalar_of(const Value& side);

// What a side value is where the grid has an element and a token: [elements, tokens]. Empty: it does not fit.
std::vector<float> spread(const Value& side, const Grid& grid);

// A constant of small numbers.
std::shared_ptr<const Value> side_value(const std::string& name, DType dtype, std::vector<std::int64_t> dims,
                                        std::span<const double> numbers);

// The mask of [.., tokens, length] that lets a token see itself and what is before it, at most `window` (0: all).
// truth: visible where true; else it is added to the scores.
Result<std::int64_t> window_of(const Value& mask, bool truth, std::int64_t tokens, std::int64_t past,
                               std::int64_t length);

// Frequencies that angles are made of: of each input of Cos and Sin, by position, and constants on the way there.
class Angles {
 public:
  explicit Angles(std::vector<std::int64_t> positions) : positions_(std::move(positions)) {}
  void add(const Graph& graph, const Uses& uses, const Node& node, const Value& angles);
  // A table [positions, columns] whose rows are taken: of cosines or of sines, perhaps. Two of one shape give what they
  // were made of.
  void add_table(const Value& table);
  // The frequency whose cos and sin these are, at each position, and how far off it is; without candidates one that the
  // differences give.
  [[nodiscard]] double frequency(std::span<const double> cos, std::span<const double> sin) const;
  [[nodiscard]] const std::vector<std::int64_t>& positions() const { return positions_; }

 private:
  [[nodiscard]] double find(std::span<const double> cos, std::span<const double> sin) const;

  std::vector<std::int64_t> positions_;
  struct Table {
    const Weight* weight;
    bool sines;
    std::vector<std::vector<float>> rows;  // those of positions 1, 2, 4, 8, ..
  };

  std::vector<double> exact_;    // constants
  std::vector<double> derived_;  // angle / position
  std::vector<Table> tables_;
  mutable std::map<std::vector<double>, double> known_;  // what was asked before: each layer asks the same
};

}  // namespace knapsack::recognition
