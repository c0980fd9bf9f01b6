// The story from a checkpoint to something that runs, in one short file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "bundle/bundle.h"
#include "import/import.h"
#include "runtime/session.h"

namespace knapsack {

struct OpenOptions {
  std::int64_t ctx = 0;
  std::int64_t chunk = 128;       // prefill rows a step
  std::int64_t max_selected = 1;  // rows of logits a prefill step can give (chunk for scoring)
  std::int64_t decode_rows = 16;  // of a decode step, each with its logits: sequences decoded together, tokens verified
};

// path: a GGUF, a split's first part, or a Hugging Face folder.
Result<std::shared_ptr<const Bundle>> open_bundle(const std::string& path, const OpenOptions& options);
Result<std::shared_ptr<const Bundle>> make_bundle(const Imported& imported, const OpenOptions& options);

}  // namespace knapsack
