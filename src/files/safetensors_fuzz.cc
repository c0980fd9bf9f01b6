// Any bytes as a safetensors file, and as an index of shards.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "files/safetensors_parse.h"

namespace knapsack {
namespace {

void check(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto part = parse_safetensors(bytes, "fuzz.safetensors")) {
    std::size_t end = part->header_bytes;
    for (const auto& tensor : part->tensors) {
      CHECK(tensor.offset == end);
      end += tensor.data.size();
    }
    CHECK(end == size);
  } else {
    CHECK(!part.error().message.empty());
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = parse_safetensors_index(text, "fuzz.index.json")) {
    for (const auto& [name, shard] : *index) CHECK(shard.find('/') == std::string::npos && shard != "..");
  }
}

}  // namespace
}  // namespace knapsack

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  knapsack::check(data, size);
  return 0;
}
