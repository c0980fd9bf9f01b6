// One GGUF file from its bytes: the parser behind GgufFile (gguf.h), and what its fuzz target calls.
// Not for splits or for opening files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "files/gguf.h"

namespace knapsack {

struct GgufPart {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<std::pair<std::string, GgufValue>> metadata;
  std::vector<GgufTensor> tensors;  // spans into the bytes given
  std::size_t header_bytes = 0;     // up to the end of the tensor table, without padding
  std::vector<std::string> oddities;
};

// `path` only names the file in messages.
Result<GgufPart> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

// "UINT32" ... of a GGUF value type; "type N" for an unknown one.
std::string gguf_type_name(std::uint32_t type);

}  // namespace knapsack
