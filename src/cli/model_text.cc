#include "cli/model_text.h"

#include <array>
#include <fstream>
#include <string_view>

#include "base/log.h"

namespace knapsack {

Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path) {
  TRY(const ModelText text, read_model_text(path));
  if (!text.tokenizer_json) {
    std::string why;
    for (const auto& oddity : text.oddities)
      if (oddity.starts_with("no tokenizer")) why = oddity;
    return bad_input("{}: expected a tokenizer (tokenizer.json, or a GGUF's vocabulary), found none: {}", path, why);
  }
  TRY(const std::string source, text.tokenizer_json());
  return Tokenizer::from_json(source, path);
}

void warn_of_oddities(const Bundle& bundle) {
  for (const std::string& oddity : bundle.oddities) {
    const bool lack = oddity.starts_with("no chat template") || oddity.starts_with("no tokenizer (") ||
                      oddity.starts_with("no end token");
    const bool told_by_the_session = oddity.starts_with("a context of ");
    if (!lack && !told_by_the_session) warn("{}: {}", bundle.name, oddity);
  }
}

bool begins_as_gguf(const std::string& path) {
  std::array<char, 4> magic{};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic.data(), magic.size()) && std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace knapsack
