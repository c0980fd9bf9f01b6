// What can be compared: something that gives named values for token ids. Checkpoints (graph_source.h) and dumps
// (dump_source.h) are; whatever else is to be aligned joins by being one. Not for the comparison: align.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"

namespace knapsack {

// A float value a source makes, and what it knows of how.
struct SourceNode {
  std::string name;
  std::string op{};                   // of ops.inc; empty: unknown
  Attrs attrs{};                      // of that op
  std::vector<std::string> inputs{};  // names of values that the op reads, of whatever kind
  std::int64_t cols = 0;
};

// data: [rows, cols]; where the source replays, what is written there is what later nodes read.
using Visit = std::function<void(std::string_view name, std::int64_t rows, std::int64_t cols, float* data)>;

// Two sequences that do not see each other.
enum class Lane : std::uint8_t { free, replay };

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  [[nodiscard]] virtual const std::string& label() const = 0;  // for messages
  // In the order in which they are visited.
  [[nodiscard]] virtual std::span<const SourceNode> nodes() const = 0;
  [[nodiscard]] virtual std::int64_t vocab() const = 0;    // 0: unknown
  [[nodiscard]] virtual std::int64_t longest() const = 0;  // tokens of a sequence
  // Whether values written by a visitor are what the nodes after read.
  [[nodiscard]] virtual bool replays() const = 0;
  // Tokens [first, first + ids.size()) of the lane's sequence, of which those before `first` have been run. Each node
  // is visited once, all rows of logits selected. ids are of the vocabulary, the end is not beyond longest().
  virtual Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane lane, const Visit& visit) = 0;
};

}  // namespace knapsack
