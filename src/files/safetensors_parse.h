// One safetensors file, or one index, from its bytes: the parsers behind SafetensorsFiles (safetensors.h), and what
// their fuzz target calls. Not for opening files.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/safetensors.h"

namespace knapsack {

struct SafetensorsPart {
  std::vector<SafeTensor> tensors;  // by offset; spans into the bytes given
  std::size_t header_bytes = 0;     // the length and the JSON
};

// `path` only names the file in messages.
Result<SafetensorsPart> parse_safetensors(std::span<const std::byte> bytes, const std::string& path);

// The weight_map of an index: tensor name -> shard, a plain file name beside the index.
Result<std::map<std::string, std::string, std::less<>>> parse_safetensors_index(std::string_view text,
                                                                                const std::string& path);

}  // namespace knapsack
