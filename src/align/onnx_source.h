// A decoder exported to ONNX, run by ONNX Runtime, as something to align: onnx_runner.py in a Python of the user's,
// which is a process of its own. It cannot be replayed. Not for ONNX files that this program runs itself.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "align/source.h"

namespace knapsack {

struct OnnxRun {
  std::string label{};
  std::string folder{};            // with decode.onnx, prefill.onnx and their weights
  std::string python = "python3";  // with numpy, onnx and onnxruntime
  int threads = 1;
  std::chrono::seconds limit{600};  // for each answer: loading, and a step
  std::stop_token stop{};
};

// Steps of the prefill model's tokens; shorter ones go through the decode model token by token. Unsupported: that
// Python lacks a package.
Result<std::unique_ptr<Source>> onnx_source(const OnnxRun& run);

}  // namespace knapsack
