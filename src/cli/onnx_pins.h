// Flags that give sizes to what an ONNX file leaves open. Not for what they mean: import/onnx.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "import/onnx.h"

namespace knapsack {

// dims: NAME=SIZE each. shapes: NAME=SIZE,SIZE,... each, given by the flag of that name.
Result<OnnxPins> read_pins(const std::vector<std::string>& dims, const std::vector<std::string>& shapes,
                           std::string_view shape_flag);

}  // namespace knapsack
