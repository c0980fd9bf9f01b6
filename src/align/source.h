// What can be compared: something that gives named values for token ids. Graphs (graph_source.h), dumps (dump_source.h)
// and ONNX models under ONNX Runtime (onnx_source.h) are; whatever else is to be aligned joins by being one. Not for
// the comparison: align.h.
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
  bool rounds = false;  // its op rounds what it reads to 8 bits (kernels/packed.h)
};

// What a router of a mixture of experts makes.
struct SourceChoice {
  std::string name;     // the experts it chose, by number
  std::string weights;  // of those, in their order: a SourceNode
  std::string scores;   // what it chose by, of every expert: a SourceNode
  // Added to the sigmoid of each score before the largest are chosen; empty: the scores themselves decide.
  std::vector<float> correction{};
};

// Called for each value that is made. data: [rows, cols], the last `rows` tokens of the step: static graphs have logits
// of one only. Where the source replays, what is written there is what later nodes read.
struct Visit {
  std::function<void(std::string_view name, std::int64_t rows, std::int64_t cols, float* data)> values{};
  std::function<void(std::string_view name, std::int64_t rows, std::int64_t cols, std::int32_t* data)> choices{};
};

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
  [[nodiscard]] virtual std::span<const SourceChoice> choices() const { return {}; }
  // What decides how results are rounded: with the same one an op gives the same bits for the same inputs. Empty:
  // unknown.
  [[nodiscard]] virtual std::string_view arithmetic() const { return {}; }
  // How it is run, for the reader: instructions, products, the type of the cache. Empty: nothing to say.
  [[nodiscard]] virtual std::string how() const { return {}; }
  [[nodiscard]] virtual std::int64_t vocab() const = 0;    // 0: unknown
  [[nodiscard]] virtual std::int64_t longest() const = 0;  // tokens of a sequence
  [[nodiscard]] virtual std::int64_t rows() const = 0;     // tokens of a step, at most
  // Whether values written by a visitor are what the nodes after read.
  [[nodiscard]] virtual bool replays() const = 0;
  // Once, before anything is run: the values that will be looked at. Others need not be visited.
  virtual Result<void> prepare(std::span<const std::string> /*names*/) { return {}; }
  // Tokens [first, first + ids.size()) of the lane's sequence, of which those before `first` have been run. Each node
  // and choice is visited once, with as many rows of logits as there are. ids are of the vocabulary, no more than
  // rows(), the end is not beyond longest().
  virtual Result<void> run(std::span<const std::int32_t> ids, std::int64_t first, Lane lane, const Visit& visit) = 0;
};

}  // namespace knapsack
