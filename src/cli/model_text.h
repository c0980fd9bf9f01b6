// What commands need of a model besides running it: its tokenizer alone, and what to say about its oddities.
#pragma once

#include <memory>
#include <string>

#include "bundle/bundle.h"
#include "import/model_text.h"
#include "text/tokenizer.h"

namespace knapsack {

// path: a GGUF, a folder, or a tokenizer.json.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& path);

// On stderr, what is odd about a model that is about to run. What it merely lacks (a template, a tokenizer) is told by
// the command that needs it.
void warn_of_oddities(const Bundle& bundle);

// Whether the file's first bytes are GGUF's; false also where it cannot be read.
bool begins_as_gguf(const std::string& path);

}  // namespace knapsack
