// A decoder as ONNX models that ONNX Runtime and vendors' compilers take: prefill of a fixed chunk and decode of one
// token, over one file of weights (docs/export.md).
// Not for how nodes are written: onnx_rows.inc. Not for what other files beside the models say.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/result.h"
#include "files/onnx.h"
#include "graph/graph.h"

namespace knapsack {

struct OnnxExportOptions {
  std::int64_t ctx = 0;    // rows of the KV cache
  std::int64_t chunk = 0;  // tokens of a prefill step; divides ctx, so that a padded last chunk ends within it
  DType floats = DType::F32;
  std::int64_t opset = 17;  // or 21
  bool contrib = false;     // ONNX Runtime's operators where they can say it
  Existing existing = Existing::kept;
  std::vector<std::pair<std::string, std::string>> metadata{};  // of both models, beside what is known here
  std::vector<std::pair<std::string, std::string>> beside{};    // name and content of other files of the folder
};

struct OnnxExport {
  struct Model {
    std::string path;
    std::int64_t tokens = 0;
    std::uint64_t bytes = 0;
    std::vector<std::pair<std::string, std::int64_t>> nodes{};  // by operator, most first
    std::vector<OnnxValue> inputs{}, outputs{};
  };
  std::vector<Model> models;
  std::string data_path;
  std::uint64_t data_bytes = 0;
  std::uint64_t disk_bytes = 0;    // what is padding between weights takes none
  std::vector<std::string> notes;  // what was asked for and is written otherwise
};

// The files of an export, in a folder: the models, then their weights.
std::vector<std::string> onnx_files(const std::string& folder);

// graph: a decoder with weights, as importers make it. The folder exists. progress: bytes done, of how many.
// Each file appears whole or not at all, the models last; those that are replaced go before anything else does. Out of
// a resource: the disk has not that much room.
Result<OnnxExport> export_onnx(const Graph& graph, const std::string& folder, const OnnxExportOptions& options,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace knapsack
