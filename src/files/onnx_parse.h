// An ONNX model from the bytes of its file: the parser behind read_onnx (onnx.h), and what its fuzz target calls.
// Not for external files: it notes where tensors lie in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "files/onnx.h"

namespace knapsack {

// What the model may take in memory beside the data that stays in place: a hundred times what a graph of 10,000 nodes
// takes, and room for small tensors stored as varints.
constexpr std::uint64_t onnx_memory_limit = std::uint64_t{1} << 30;

// `path` only names the file in messages. owner: what keeps `bytes`; null where the caller does.
Result<OnnxModel> parse_onnx(std::span<const std::byte> bytes, const std::string& path,
                             const std::shared_ptr<const void>& owner = nullptr,
                             std::uint64_t memory_limit = onnx_memory_limit);

// Whether the bytes are laid out as an ONNX model is, which has no magic: fields of ModelProto alone, an IR version,
// and a graph that begins as one. A file cut inside its graph still looks so. Costs some thousand steps at most,
// whatever the size.
bool looks_like_onnx(std::span<const std::byte> bytes);

}  // namespace knapsack
