// A template, then (after a NUL) its variables as JSON: rendered or refused, in bounded time and memory.
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find('\0');
  const std::string_view source = input.substr(0, cut);
  const std::string_view variables =
      cut == std::string_view::npos
          ? R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null}],"bos_token":"<s>","n":3})"
          : input.substr(cut + 1);
  (void)knapsack::render_chat_template(source, variables, "2026-07-01T12:30:00", "fuzz");
  return 0;
}
