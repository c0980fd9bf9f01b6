// The shapes of a model's inputs once dynamic dimensions are pinned.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx.h"

namespace knapsack::onnx {

struct PinnedInput {
  const OnnxValue* value = nullptr;
  DType dtype = DType::F32;
  std::vector<std::int64_t> dims{};
};

// Of the graph's inputs but those that are initializers. Errors: as graph_from_onnx says.
Result<std::vector<PinnedInput>> pin_inputs(const OnnxGraph& graph, const OnnxPins& pins);

}  // namespace knapsack::onnx
