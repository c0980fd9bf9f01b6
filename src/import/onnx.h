// ONNX models as graphs of primitive ops (Stage::imported): what a file's nodes mean, in the operators of
// ops/primitives.inc. Shapes are static: dynamic dimensions are pinned, and what has only constant inputs (shape
// arithmetic) is computed while importing.
// Not for reading files (files/onnx.h), nor for recognising a decoder in what was read (passes).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/onnx.h"
#include "graph/graph.h"

namespace knapsack {

// Sizes for dimensions that the file leaves open.
struct OnnxPins {
  std::map<std::string, std::int64_t, std::less<>> dims{};                 // by the dimension's name
  std::map<std::string, std::vector<std::int64_t>, std::less<>> shapes{};  // by the input's name: all of its sizes
  // How messages say that one is pinned: before NAME=SIZE, and before NAME=SIZE,SIZE.
  std::string dim_flag = "--dim ", shape_flag = "--input ";
};

// Values have the names of the file's. Only where a name cannot be had (an operator's second output, an output that is
// an input) another stands in the graph.
struct ImportedOnnx {
  Graph graph;
  std::vector<std::string> inputs{};   // the file's names, in the graph's order
  std::vector<std::string> outputs{};  // the same, of Graph::outputs()
  std::vector<std::string> notes{};    // what is not in the graph as it is in the file
};

// Opsets 11 to 23 of ai.onnx, and ONNX Runtime's own operators (com.microsoft) that transformers have. Constants point
// into the model's data where that is aligned, and keep it alive. Errors: usage: dimensions without a size, all of
// them, each with the flag that pins it; a pin that fits no input. unsupported: all operators, forms of them and types
// that this version has not, with the nodes' names and the nearest form that it has. bad_input: a node that breaks
// ONNX's rules, a value that nothing makes.
Result<ImportedOnnx> graph_from_onnx(const OnnxModel& model, const OnnxPins& pins);

// The same of a file.
Result<ImportedOnnx> import_onnx(const std::string& path, const OnnxPins& pins);

// The type of ours that holds the same numbers; nothing: there is none.
std::optional<DType> dtype_from_onnx(OnnxType type);

}  // namespace knapsack
