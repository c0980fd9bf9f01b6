// A text, a NUL, a tokenizer.json: whatever loads must encode, decode, and stream what it decodes.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  if (cut == std::string_view::npos) return 0;
  auto made = knapsack::Tokenizer::from_json(input.substr(cut + 1), "fuzz");
  if (!made.has_value()) return 0;
  const auto& tokenizer = *made;
  auto ids = tokenizer->encode(input.substr(0, cut), true);
  if (!ids.has_value()) return 0;
  ids->push_back(tokenizer->largest_id());
  ids->push_back(-1);
  for (const bool skip : {false, true}) {
    const std::string whole = tokenizer->decode(*ids, skip);
    knapsack::StreamDecoder stream(tokenizer, skip);
    std::string streamed;
    for (const std::int32_t id : *ids) streamed += stream.push(id);
    streamed += stream.finish();
    CHECK(streamed == whole);
  }
  for (const std::int32_t id : *ids) {
    (void)tokenizer->piece(id);
    (void)tokenizer->is_special(id);
  }
  return 0;
}
