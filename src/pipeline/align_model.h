// What a person names for an alignment, as a source: `PATH:WORDS` (docs/align.md). Not for the comparison: align/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "align/source.h"
#include "base/result.h"
#include "kernels/kernel.h"
#include "tensor/dtype.h"

namespace knapsack {

struct AlignSpec {
  std::string path;
  bool dump = false;
  std::optional<Isa> isa{};  // none: the fastest
  bool exact = false;
  DType kv = DType::F16;
};
// A path that exists as it stands is one, whatever its colons.
Result<AlignSpec> parse_align_spec(const std::string& text);

struct AlignSide {
  std::unique_ptr<Source> source;
  std::function<Result<std::string>()> tokenizer_json{};  // null: no tokenizer
  std::vector<std::int32_t> ids{};                        // a dump's own; empty: none
};
// ctx: tokens of a sequence; rows: of a step. label: for reports.
Result<AlignSide> open_align_side(const AlignSpec& spec, const std::string& label, std::int64_t ctx, std::int64_t rows,
                                  int threads);

}  // namespace knapsack
