// A vocabulary spelled in lines ("token TAB type TAB score", then "m merge"): refused, or a tokenizer.json that loads.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/gguf_vocab.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  static constexpr const char* kModels[] = {"gpt2", "llama", "bert", "t5"};
  static constexpr const char* kPre[] = {"qwen2", "llama-bpe", "default", "gemma4", "deepseek-llm", "tekken", "?", ""};
  knapsack::GgufVocab vocab;
  vocab.model = kModels[data[0] % 4];
  vocab.pre = kPre[data[1] % 8];
  vocab.add_bos = data[2] % 3 - 1;
  vocab.add_eos = data[2] / 3 % 3 - 1;
  vocab.add_space_prefix = data[2] / 9 % 3 - 1;
  vocab.bos = data[3] < 128 ? data[3] : data[3] - 256;
  vocab.eos = vocab.bos + 1;
  input.remove_prefix(4);
  const bool types = data[0] % 8 < 4;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string_view line = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    if (line.starts_with("m ")) {
      vocab.merges.emplace_back(line.substr(2));
      continue;
    }
    const std::size_t tab = std::min(line.find('\t'), line.size());
    const std::string rest(line.substr(std::min(tab + 1, line.size())));
    vocab.tokens.emplace_back(line.substr(0, tab));
    if (types) vocab.types.push_back(static_cast<std::int32_t>(std::strtol(rest.c_str(), nullptr, 10)));
    const std::size_t second = rest.find('\t');
    vocab.scores.push_back(second == std::string::npos ? 0.0F : std::strtof(rest.c_str() + second + 1, nullptr));
  }
  const auto text = knapsack::tokenizer_json_from(vocab, "fuzz");
  if (!text.has_value()) return 0;
  const auto made = knapsack::Tokenizer::from_json(*text, "fuzz");
  CHECK(made.has_value());
  const auto ids = (*made)->encode("a b <s>\n0x0A 你", true);
  if (ids.has_value()) (void)(*made)->decode(*ids, false);
  return 0;
}
