// A model's tokenizer for the commands that need nothing else of it.
#pragma once

#include <memory>
#include <string>

#include "import/model_text.h"
#include "text/tokenizer.h"

namespace knapsack {

// path: a GGUF, a folder, or a tokenizer.json.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path);

// Whether the file's first bytes are GGUF's; false also where it cannot be read.
bool begins_as_gguf(const std::string& path);

}  // namespace knapsack
