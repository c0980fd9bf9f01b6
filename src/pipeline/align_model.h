// What a person names for an alignment, as a source: `PATH:WORDS` (docs/align.md). Not for the comparison: align/.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "align/source.h"
#include "base/result.h"
#include "import/onnx.h"
#include "kernels/kernel.h"
#include "tensor/dtype.h"

namespace knapsack {

struct AlignSpec {
  std::string path;
  bool dump = false;
  bool onnx_file = false;    // an ONNX file that this program runs
  bool onnx = false;         // an export, under ONNX Runtime; path: its folder, or a file there
  std::optional<Isa> isa{};  // none: the fastest
  bool exact = false;
  DType kv = DType::F16;
  std::string stage{};                 // that the graph is brought to (graph_stage.h); empty: as it is imported
  std::vector<std::string> without{};  // passes left out
  OnnxPins pins{};                     // of an ONNX file that this program runs
  std::int64_t tokens = 1;             // of a step, where shapes are static
  // Whether it is run by this program.
  [[nodiscard]] bool ours() const { return !dump && !onnx; }
};
// A path that exists as it stands is one, whatever its colons.
Result<AlignSpec> parse_align_spec(const std::string& text);

struct AlignSide {
  std::unique_ptr<Source> source;
  std::function<Result<std::string>()> tokenizer_json{};  // null: no tokenizer
  std::vector<std::int32_t> ids{};                        // a dump's own; empty: none
};
struct AlignRun {
  std::int64_t ctx = 128;  // tokens of a sequence
  std::int64_t rows = 32;  // of a step
  int threads = 1;
  // Of ONNX Runtime.
  std::string python = "python3";
  std::chrono::seconds limit{600};
  std::stop_token stop{};
};
// label: for reports.
Result<AlignSide> open_align_side(const AlignSpec& spec, const std::string& label, const AlignRun& run);

}  // namespace knapsack
